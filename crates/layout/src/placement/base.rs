//! Choosing the base iod so that disks fill evenly: chance in proportion to free space.

/// The position of the base iod for a new file, given what each iod has free (in the cluster's
/// order, less any reserve) and a uniformly random number. `None` when there are no iods.
///
/// An iod with twice the free space is chosen twice as often. A full one (0 bytes) is never chosen
/// unless all are; then every one is as likely.
pub fn choose_base(free_bytes: &[u64], random: u64) -> Option<u32> {
    let total: u128 = free_bytes.iter().map(|free| u128::from(*free)).sum();
    if total == 0 {
        let count = u32::try_from(free_bytes.len()).ok()?;
        return (count > 0).then(|| scale(random, u128::from(count)) as u32);
    }
    let mut target = scale(random, total);
    let index = free_bytes.iter().position(|free| {
        let here = target < u128::from(*free);
        target = target.saturating_sub(u128::from(*free));
        here
    });
    index.and_then(|index| u32::try_from(index).ok())
}

/// `random / 2^64 * total`, below `total`, in two halves since the product would not fit.
fn scale(random: u64, total: u128) -> u128 {
    let random = u128::from(random);
    let (high, low) = (total >> 64, total & u128::from(u64::MAX));
    random * high + ((random * low) >> 64)
}

#[cfg(test)]
mod tests {
    use super::choose_base;

    /// Evenly spaced "random" numbers, so that counts are as expected but for rounding.
    fn times_chosen(free_bytes: &[u64], trials: u64) -> Vec<u64> {
        let mut times = vec![0; free_bytes.len()];
        for trial in 0..trials {
            let random = trial * (u64::MAX / trials);
            times[choose_base(free_bytes, random).unwrap() as usize] += 1;
        }
        times
    }

    fn assert_about(times: &[u64], expected: &[u64]) {
        let about = |(chosen, expected): (&u64, &u64)| chosen.abs_diff(*expected) <= 2;
        assert!(times.iter().zip(expected).all(about), "{times:?} is not about {expected:?}");
    }

    #[test]
    fn chance_is_in_proportion_to_free_space() {
        for unit in [1, 1 << 40, u64::MAX / 3] {
            let times = times_chosen(&[unit, 0, 3 * unit, 2 * unit], 6000);
            assert_about(&times, &[1000, 0, 3000, 2000]);
            assert_eq!(times[1], 0);
        }
    }

    #[test]
    fn full_iods_are_chosen_only_when_all_are_full() {
        assert_about(&times_chosen(&[0, 0, 0, 0], 4000), &[1000, 1000, 1000, 1000]);
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            assert_eq!(choose_base(&[0, 0, 1, 0], random), Some(2));
        }
    }

    #[test]
    fn no_iods_no_base() {
        assert_eq!(choose_base(&[], 7), None);
    }

    #[test]
    fn largest_sums_do_not_overflow() {
        assert_eq!(choose_base(&[u64::MAX; 64], u64::MAX), Some(63));
        assert_eq!(choose_base(&[u64::MAX; 64], 0), Some(0));
    }
}
