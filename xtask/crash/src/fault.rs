//! The faults that the crash test causes, and the databases on which each of them runs.

use clap::ValueEnum;

/// Number of groups of faults. The groups run in parallel, because most of their time is waiting.
pub(crate) const LANES: usize = 4;

/// The group that runs alone after all others, because its faults measure times.
pub(crate) const LAST_LANE: usize = LANES;

/// The databases that were selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Databases {
    Sqlite,
    Postgres,
    Both,
}

impl Databases {
    /// The databases that are selected.
    pub(crate) fn each(self) -> &'static [Database] {
        match self {
            Self::Sqlite => &[Database::Sqlite],
            Self::Postgres => &[Database::Postgres],
            Self::Both => &[Database::Sqlite, Database::Postgres],
        }
    }
}

/// Where the service stores its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Database {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Database {
    /// Its name in the output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// A fault of the crash test. The code in each description is that of rule D; the faults from F24 on are additions of
/// this service.
/// Source: rules D.1; rules D.2; rules D.3; rules D.4; rules D.5; rules D.8; rules D.9; rules D.10; rules D.11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// F1: the service is killed at random moments
    #[value(alias = "F1")]
    Kills,
    /// F2: the service ends at each edge of each commit
    #[value(alias = "F2")]
    CommitEdges,
    /// F3: one of two workers is killed
    #[value(alias = "F3")]
    WorkerKills,
    /// F4: PostgreSQL is killed, unresponsive, or replaced
    #[value(alias = "F4")]
    DatabaseOutages,
    /// F5: the connection to PostgreSQL breaks at a commit
    #[value(alias = "F5")]
    CutConnections,
    /// F8: the clock jumps two hours
    #[value(alias = "F8")]
    ClockJumps,
    /// F9: receivers respond badly
    #[value(alias = "F9")]
    BadReceivers,
    /// F10: one receiver among a hundred hangs
    #[value(alias = "F10")]
    HangingReceiver,
    /// F11: the receiver is unreachable until every delivery has failed
    #[value(alias = "F11")]
    AbsentReceiver,
    /// F24: the leader of a network is killed or stopped
    #[value(alias = "F24")]
    LeaderKills,
    /// F25: instances are replaced one after another
    #[value(alias = "F25")]
    RollingRestarts,
    /// F26: the service is killed while recurring payments and requests are due
    #[value(alias = "F26")]
    RecurringKills,
    /// F27: the service is killed while links are created, combined, locked, withdrawn and paid, also by orchestrators
    #[value(alias = "F27")]
    LinkKills,
    /// F28: the service is killed while payers register and their bank accounts are paid
    #[value(alias = "F28")]
    FiatKills,
    /// F29: single responses of PostgreSQL arrive seconds late
    #[value(alias = "F29")]
    LateAnswers,
    /// F30: the service is killed while it broadcasts transactions on Tron
    #[value(alias = "F30")]
    BroadcastKills,
}

impl Fault {
    /// The name of the fault on the command line.
    pub(crate) fn name(self) -> String {
        self.names().swap_remove(0)
    }

    /// The name of the fault with its code: `kills (F1)`.
    pub(crate) fn title(self) -> String {
        let names = self.names();
        format!("{} ({})", names[0], names[1..].join(", "))
    }

    fn names(self) -> Vec<String> {
        let value = self.to_possible_value();
        let names = value.iter().flat_map(|value| value.get_name_and_aliases());
        names.map(str::to_owned).collect()
    }

    /// The group that the fault runs in.
    pub(crate) fn lane(self, database: Database, is_short: bool) -> usize {
        match self {
            Self::Kills | Self::CommitEdges if is_short && database == Database::Postgres => 1,
            Self::Kills | Self::CommitEdges => 0,
            Self::WorkerKills | Self::DatabaseOutages | Self::CutConnections => 2,
            Self::LateAnswers => 0,
            Self::ClockJumps | Self::BadReceivers | Self::AbsentReceiver => usize::from(is_short) + 2,
            Self::LeaderKills if is_short => 1,
            Self::LeaderKills => 3,
            Self::RecurringKills if is_short && database == Database::Sqlite => 3,
            Self::RecurringKills if is_short => 0,
            Self::RecurringKills => 1,
            Self::LinkKills | Self::FiatKills | Self::BroadcastKills if is_short && database == Database::Sqlite => 1,
            Self::LinkKills | Self::FiatKills | Self::BroadcastKills => 2,
            Self::HangingReceiver | Self::RollingRestarts => LAST_LANE,
        }
    }

    /// The databases that the fault runs on.
    pub(crate) fn databases(self, chosen: Databases) -> &'static [Database] {
        match self {
            Self::Kills
            | Self::CommitEdges
            | Self::RecurringKills
            | Self::LinkKills
            | Self::FiatKills
            | Self::BroadcastKills => chosen.each(),
            Self::WorkerKills
            | Self::DatabaseOutages
            | Self::CutConnections
            | Self::LateAnswers
            | Self::AbsentReceiver
            | Self::LeaderKills
            | Self::RollingRestarts => Databases::Postgres.each(),
            Self::ClockJumps | Self::BadReceivers | Self::HangingReceiver => Databases::Sqlite.each(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_a_code_a_lane_and_a_database() {
        for fault in Fault::value_variants() {
            for name in fault.names() {
                assert_eq!(Fault::from_str(&name.to_lowercase(), true), Ok(*fault), "{name}");
            }
            assert!(fault.title().contains(" (F"), "{fault:?}");
            for is_short in [true, false] {
                assert!(fault.lane(Database::Sqlite, is_short) <= LAST_LANE, "{fault:?}");
            }
            assert!(!fault.databases(Databases::Both).is_empty(), "{fault:?}");
        }
    }
}
