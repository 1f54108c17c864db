//! Trouble: what breaks, when, and how it is mended, from a seed.

use std::time::Duration;

use pvfs_net::memory::{Chance, Cut, MemoryNetwork, Weather};
use pvfs_net::runtime::Instant;

use crate::manager_host::MANAGER;
use crate::world::{Command, Loss, Victim};

/// What may go wrong in a world. Everything that breaks is mended after at most `outage_max`.
pub struct Trouble {
    /// Chooses.
    pub chance: Chance,
    /// Client hosts.
    pub clients: Vec<String>,
    /// I/O daemons.
    pub iods: u32,
    /// Between two strikes, at most.
    pub pause_max: Duration,
    /// How long a daemon stays away or a link is held, at most.
    pub outage_max: Duration,
    /// How the manager may end.
    pub manager: Option<Loss>,
    /// How an iod may end.
    pub iod: Option<Loss>,
    /// Whether the manager may be stopped and continued.
    pub freezes_manager: bool,
    /// When to strike next, and what to do then.
    plan: Vec<(Instant, Command)>,
    next: Option<Instant>,
}

impl Trouble {
    /// Cut connections and held links; daemons live on.
    pub fn new(chance: Chance, clients: &[&str], iods: u32) -> Self {
        Self {
            chance,
            clients: clients.iter().map(ToString::to_string).collect(),
            iods,
            pause_max: Duration::from_millis(400),
            outage_max: Duration::from_secs(2),
            manager: None,
            iod: None,
            freezes_manager: true,
            plan: Vec::new(),
            next: None,
        }
    }

    /// Strikes when it is time to.
    pub fn strike(&mut self, network: &MemoryNetwork) -> Vec<Command> {
        let now = network.now();
        let mut due: Vec<_> = self.plan.extract_if(.., |(at, _)| *at <= now).collect();
        due.sort_by_key(|(at, _)| *at);
        let mut commands: Vec<Command> = due.into_iter().map(|(_, command)| command).collect();
        match self.next {
            None => network.set_weather(self.weather()),
            Some(next) if next > now => return commands,
            Some(_) => commands.extend(self.choose(network)),
        }
        let next = now.after(self.chance.time(Duration::ZERO, self.pause_max));
        self.next = Some(next);
        network.wake_at(next);
        commands
    }

    /// Leaves quiet weather behind.
    pub fn end(self, network: &MemoryNetwork) {
        network.set_weather(Weather { cut_ppm: 0, ..Weather::default() });
    }

    fn weather(&mut self) -> Weather {
        let cut_ppm = self.chance.between(0, 10_000) as u32;
        let delay_max = self.chance.time(Duration::from_micros(50), Duration::from_millis(5));
        Weather { cut_ppm, delay_max, ..Weather::stormy() }
    }

    fn choose(&mut self, network: &MemoryNetwork) -> Option<Command> {
        match self.chance.between(0, 10) {
            0..=3 => self.cut(network),
            4..=5 => self.hold(network),
            6..=7 => return self.stop_manager(network),
            8..=9 => return self.stop_iod(network),
            _ => return Some(self.freeze(network)),
        }
        None
    }

    fn cut(&mut self, network: &MemoryNetwork) {
        let (client, server) = self.link();
        let how = match self.chance.between(0, 4) {
            0 => Cut::Clean,
            1..=2 => Cut::ServerLate(self.outage_max),
            3 => Cut::ClientLate(self.outage_max),
            _ => Cut::LostToClient,
        };
        network.cut(&client, &server, how);
    }

    fn hold(&mut self, network: &MemoryNetwork) {
        let (client, server) = self.link();
        let time = self.outage();
        match self.chance.between(0, 2) {
            0 => network.hold(&client, &server, Some(time)),
            1 => network.hold(&server, &client, Some(time)),
            _ => {
                network.hold(&client, &server, Some(time));
                network.hold(&server, &client, Some(time));
            }
        }
    }

    fn stop_manager(&mut self, network: &MemoryNetwork) -> Option<Command> {
        let loss = self.some_loss(self.manager?);
        self.later(network, Command::StartManager);
        Some(Command::StopManager(loss))
    }

    fn stop_iod(&mut self, network: &MemoryNetwork) -> Option<Command> {
        let loss = self.some_loss(self.iod?);
        let iod = self.chance.between(0, u64::from(self.iods) - 1) as u32;
        self.later(network, Command::StartIod(iod));
        Some(Command::StopIod(iod, loss))
    }

    fn freeze(&mut self, network: &MemoryNetwork) -> Command {
        let first = u64::from(!self.freezes_manager);
        let victim = match self.chance.between(first, u64::from(self.iods)) {
            0 => Victim::Manager,
            iod => Victim::Iod(iod as u32 - 1),
        };
        self.later(network, Command::Thaw(victim));
        Command::Freeze(victim)
    }

    fn later(&mut self, network: &MemoryNetwork, command: Command) {
        let at = network.now().after(self.outage());
        network.wake_at(at);
        self.plan.push((at, command));
    }

    /// Where power may be lost, processes may be killed too.
    fn some_loss(&mut self, worst: Loss) -> Loss {
        if worst == Loss::Power && self.chance.between(0, 1) == 0 {
            Loss::Power
        } else {
            Loss::Process
        }
    }

    fn outage(&mut self) -> Duration {
        self.chance.time(Duration::ZERO, self.outage_max)
    }

    fn link(&mut self) -> (String, String) {
        let client = self.chance.between(0, self.clients.len() as u64 - 1) as usize;
        let server = match self.chance.between(0, u64::from(self.iods)) {
            0 => MANAGER.to_owned(),
            iod => format!("io{}", iod - 1),
        };
        (self.clients[client].clone(), server)
    }
}
