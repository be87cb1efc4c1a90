//! What can be broken, and on which database.

use clap::ValueEnum;

/// Runs of faults that go on at the same time, because most of their time is waiting.
pub(crate) const LANES: usize = 4;

/// The run that comes after all others: what measures times of its own.
pub(crate) const LAST_LANE: usize = LANES;

/// Which databases were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Databases {
    Sqlite,
    Postgres,
    Both,
}

impl Databases {
    /// The databases that the choice stands for.
    pub(crate) fn each(self) -> &'static [Database] {
        match self {
            Self::Sqlite => &[Database::Sqlite],
            Self::Postgres => &[Database::Postgres],
            Self::Both => &[Database::Sqlite, Database::Postgres],
        }
    }
}

/// Where the service keeps its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Database {
    /// The embedded one.
    Sqlite,
    /// The one that grows.
    Postgres,
}

impl Database {
    /// Its name as it is printed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// What is broken. The code behind each name is that of rule D; those from F24 on are additions of this service. Source: rules D.1; rules D.2; rules D.3; rules D.4;
/// rules D.5; rules D.8; rules D.9; rules D.10; rules D.11.
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
    /// F4: PostgreSQL is killed, silent, or replaced
    #[value(alias = "F4")]
    DatabaseOutages,
    /// F5: the connection to PostgreSQL breaks at a commit
    #[value(alias = "F5")]
    CutConnections,
    /// F8: the clock jumps two hours
    #[value(alias = "F8")]
    ClockJumps,
    /// F9: receivers answer badly
    #[value(alias = "F9")]
    BadReceivers,
    /// F10: one receiver among a hundred hangs
    #[value(alias = "F10")]
    HangingReceiver,
    /// F11: the receiver is away until every delivery has failed
    #[value(alias = "F11")]
    AbsentReceiver,
    /// F24: the instance that leads a network is killed or stopped
    #[value(alias = "F24")]
    LeaderKills,
    /// F25: instances are replaced one after the other
    #[value(alias = "F25")]
    RollingRestarts,
    /// F26: the service is killed while recurring payments and requests are due
    #[value(alias = "F26")]
    RecurringKills,
    /// F27: the service is killed while links are made, combined, withdrawn and paid
    #[value(alias = "F27")]
    LinkKills,
    /// F28: the service is killed while payers are registered and their bank accounts paid
    #[value(alias = "F28")]
    FiatKills,
    /// F29: single answers of PostgreSQL come seconds late
    #[value(alias = "F29")]
    LateAnswers,
}

impl Fault {
    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.names().swap_remove(0)
    }

    /// Its name with its code: `kills (F1)`.
    pub(crate) fn title(self) -> String {
        let names = self.names();
        format!("{} ({})", names[0], names[1..].join(", "))
    }

    fn names(self) -> Vec<String> {
        let value = self.to_possible_value();
        let names = value.iter().flat_map(|value| value.get_name_and_aliases());
        names.map(str::to_owned).collect()
    }

    /// Which run of faults it belongs to.
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
            Self::LinkKills | Self::FiatKills if is_short && database == Database::Sqlite => 1,
            Self::LinkKills | Self::FiatKills => 2,
            Self::HangingReceiver | Self::RollingRestarts => LAST_LANE,
        }
    }

    /// Where it is played.
    pub(crate) fn databases(self, chosen: Databases) -> &'static [Database] {
        match self {
            Self::Kills | Self::CommitEdges | Self::RecurringKills | Self::LinkKills | Self::FiatKills => chosen.each(),
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
    fn every_fault_has_a_word_a_code_a_lane_and_a_database() {
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
