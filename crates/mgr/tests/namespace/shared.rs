//! Shared opens: who may use, renew and end them, and how many there may be.

use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::*;

use crate::world::{World, root, user};
use pvfs_mgr::permission::Credentials;

fn open_shared(
    world: &mut World,
    who: &Credentials,
    sharers: Sharers,
) -> Result<OpenedShared, Errno> {
    let flags = OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE;
    let (target, striping) = (world.at("file"), Striping::default());
    let request = OpenShared { target, flags, mode: 0o600, striping, sharers, lifetime_s: 60 };
    world.run(who, request)
}

#[test]
fn only_those_who_are_meant_renew_and_only_the_opener_closes() {
    let opener = Credentials { gids: vec![50], gid: 40, ..user(7) };
    let fellow = Credentials { gids: vec![40], ..user(8) };
    let stranger = user(9);
    for (sharers, fellow_may, stranger_may) in [
        (Sharers::User, false, false),
        (Sharers::Group, true, false),
        (Sharers::Anyone, true, true),
    ] {
        let mut world = World::new(1);
        let handle = open_shared(&mut world, &opener, sharers).unwrap().handle;
        let mut renewed = |who: &Credentials| {
            let renewed = world.run_for(2, who, RenewShared { handle: handle.clone() });
            assert!(renewed.is_ok() || renewed == Err(Errno::EACCES));
            renewed.is_ok()
        };
        let outcomes = [renewed(&opener), renewed(&fellow), renewed(&stranger), renewed(&root())];
        assert_eq!(outcomes, [true, fellow_may, stranger_may, true], "{sharers:?}");
        let close = || CloseShared { handle: handle.clone() };
        assert_eq!(world.run(&fellow, close()), Err(Errno::EPERM));
        world.check();
        assert!(world.run(&opener, close()).is_ok());
        assert_eq!(world.run(&opener, RenewShared { handle }), Err(Errno::ESTALE));
        world.check();
    }
}

#[test]
fn permissions_are_those_of_an_open() {
    let mut world = World::new(1);
    open_shared(&mut world, &user(7), Sharers::User).unwrap();
    assert_eq!(open_shared(&mut world, &user(8), Sharers::User).unwrap_err(), Errno::EACCES);
    assert!(open_shared(&mut world, &root(), Sharers::User).is_ok());
}

#[test]
fn nobody_has_too_many_and_closing_makes_room() {
    let mut world = World::new(1);
    let first = open_shared(&mut world, &user(7), Sharers::User).unwrap();
    let others = std::iter::repeat_with(|| open_shared(&mut world, &user(7), Sharers::User));
    let count = others.take_while(Result::is_ok).count();
    assert_eq!(count, 511);
    assert_eq!(open_shared(&mut world, &user(7), Sharers::User).unwrap_err(), Errno::EMFILE);
    assert!(open_shared(&mut world, &root(), Sharers::User).is_ok());
    world.run(&user(7), CloseShared { handle: first.handle }).unwrap();
    assert!(open_shared(&mut world, &user(7), Sharers::User).is_ok());
    world.check();
}
