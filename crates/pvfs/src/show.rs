//! How attributes, sizes and times are printed, for people and for programs.

use nix::unistd::{Gid, Group, Uid, User};
use pvfs_layout::IodId;
use pvfs_wire::attr::{Attr, FileKind, Placement, Time};
use serde_json::{Value, json};

/// What `ls -l` prints before a name.
pub fn long(attr: &Attr, human: bool) -> String {
    let size = if human { human_bytes(attr.size) } else { attr.size.to_string() };
    format!(
        "{} {:>3} {:<8} {:<8} {size:>12} {}",
        mode(attr),
        attr.nlink,
        user(attr.uid),
        group(attr.gid),
        time(attr.mtime)
    )
}

/// Attributes for a program.
pub fn attributes(attr: &Attr, name: &str) -> Value {
    json!({
        "name": name, "type": kind(attr.kind), "mode": format!("{:04o}", attr.mode), "nlink": attr.nlink,
        "uid": attr.uid, "gid": attr.gid, "size": attr.size, "inode": attr.handle.object,
        "handle": attr.handle.to_string(), "atime_ns": attr.atime.as_nanos(),
        "mtime_ns": attr.mtime.as_nanos(), "ctime_ns": attr.ctime.as_nanos(), "btime_ns": attr.btime.as_nanos(),
    })
}

/// Seconds that something took or takes, such as `3:02:11`.
pub fn duration(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Where a file's data lie, for a program. `names` are the iods of the cluster, in order.
pub fn placement(placement: &Placement, names: &[String]) -> Value {
    let ids: Vec<u32> = placement.iods.iter().map(|IodId(id)| id).collect();
    let named: Vec<&str> =
        ids.iter().map(|id| names.get(*id as usize).map_or("?", String::as_str)).collect();
    json!({
        "dist": placement.dist.scheme().to_string(), "base": ids.first(), "pcount": ids.len(),
        "ssize": ssize(placement), "iods": named,
    })
}

/// The strip size, where there is one for all slots.
pub fn ssize(placement: &Placement) -> Option<u64> {
    let text = placement.dist.scheme().to_string();
    let value = text.split(['=', ',']).skip_while(|word| !word.ends_with("ssize")).nth(1)?;
    value.parse().ok()
}

/// `-rw-r--r--`
fn mode(attr: &Attr) -> String {
    let first = match attr.kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
        FileKind::Socket => 's',
    };
    let bit = |mask: u32, shown: char| if attr.mode & mask == 0 { '-' } else { shown };
    let execute = |mask: u32, special: u32, both: char, only: char| match (
        attr.mode & mask != 0,
        attr.mode & special != 0,
    ) {
        (true, true) => both,
        (false, true) => only,
        (true, false) => 'x',
        (false, false) => '-',
    };
    [
        first,
        bit(0o400, 'r'),
        bit(0o200, 'w'),
        execute(0o100, 0o4000, 's', 'S'),
        bit(0o040, 'r'),
        bit(0o020, 'w'),
        execute(0o010, 0o2000, 's', 'S'),
        bit(0o004, 'r'),
        bit(0o002, 'w'),
        execute(0o001, 0o1000, 't', 'T'),
    ]
    .iter()
    .collect()
}

/// The word for a kind of object.
pub fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
        FileKind::Socket => "socket",
    }
}

/// The user's name where this node knows it, else the number.
pub fn user(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

fn group(gid: u32) -> String {
    let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    group.map_or_else(|| gid.to_string(), |group| group.name)
}

/// `2026-11-21 08:40:00Z`: UTC, so that lists from different nodes compare.
pub fn time(time: Time) -> String {
    let (days, seconds) = (time.seconds.div_euclid(86_400), time.seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar. Years begin in March here, so that
/// the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `1 file`, `2 files`
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `1.5G`: powers of 1024, two digits where they tell something.
pub fn human_bytes(bytes: u64) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match value {
        _ if unit == 0 => bytes.to_string(),
        small if small < 10.0 => format!("{small:.1}{}", units[unit]),
        large => format!("{large:.0}{}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_the_dates_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(-1), (1969, 12, 31));
        let at = Time { seconds: 1_700_000_000, nanos: 0 };
        assert_eq!(time(at), "2023-11-14 22:13:20Z");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|number| count(number, "file")), ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn sizes_have_two_digits() {
        let shown: Vec<String> =
            [0, 1023, 1536, 10 << 20, 5 << 40].into_iter().map(human_bytes).collect();
        assert_eq!(shown, ["0", "1023", "1.5K", "10M", "5.0T"]);
    }
}
