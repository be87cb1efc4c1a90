//! Tests of a machine clock that jumps.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::fault::{Database, Fault};
use crate::plan::{Plan, QUIET_TIME};
use crate::report::Row;
use crate::stage::{POLL, Stage};
use xtask::machine::packages;

/// Folder of Debian's libraries, by architecture.
const LIBRARIES: &str = "/usr/lib";

/// The library that shows a process another time, in its folder.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

/// The offset of a clock that shows the right time.
const RIGHT: &str = "+0";

/// Offsets from the right time to which the clock jumps, in this order.
const OFFSETS: [&str; 4] = ["+2h", RIGHT, "-2h", RIGHT];

/// The offset at the end of the run. The clock is then two hours before times that the service has just stored.
const LAST_OFFSET: &str = "-2h";

/// Time between two jumps. At each jump, some deliveries wait for their next attempt.
const PAUSE: Duration = Duration::from_millis(2_500);

/// Pauses before the second and before the third attempt of a delivery. Source: interface §6.1 (5).
const DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Time limit for all further attempts, counted from the last first attempt: both pauses, plus a reserve for a busy
/// machine.
const REPETITIONS_MAX: Duration = Duration::from_secs(30);

/// Tolerance for comparing times that two programs read at the same moment.
const TOLERANCE: Duration = Duration::from_millis(20);

/// The clock jumps forward and back while payments are confirmed and deliveries are repeated.
pub(crate) fn jumps(plan: &Plan) -> Result<Row> {
    let clock = ShownClock::new()?;
    let environment = clock.environment();
    let mut stage = Stage::open_with(plan, Fault::ClockJumps, Database::Sqlite, false, &environment)?;
    stage.register("late")?;
    stage.register("flaky")?;
    let (jumps, mut records) = stage.under_load(|_, pressure| {
        let mut jumps = 0;
        for _ in 0..plan.clock_rounds {
            for next in OFFSETS {
                pressure.pause(PAUSE)?;
                clock.set(next)?;
                jumps += 1;
            }
            pressure.next_round();
        }
        pressure.pause(PAUSE)?;
        clock.set(LAST_OFFSET)?;
        Ok(jumps + 1)
    })?;
    let verdict = stage.settle(&mut records, "flaky", QUIET_TIME)?;
    let mut row = Row::of(Fault::ClockJumps, Database::Sqlite, jumps, &verdict);
    let steady = stage.settle(&mut records, "late", Duration::ZERO)?;
    row.lost += steady.events_lost;
    row.doubled += steady.events_doubled + steady.events_surplus;
    row.changed += steady.deliveries_changed + steady.deliveries_unsigned;

    // The last payments may have been confirmed just before. Their deliveries need time for all attempts.
    let begun = Instant::now();
    let mut tries = first_arrivals(&stage);
    while count_unfinished(&tries) > 0 && begun.elapsed() < REPETITIONS_MAX {
        thread::sleep(POLL);
        tries = first_arrivals(&stage);
    }
    let (mut early, mut latest, mut all) = (0, Duration::ZERO, 0);
    for of_delivery in tries.values() {
        for (number, delay) in (0_u32..).zip(DELAYS) {
            let (Some(first), Some(second)) = (of_delivery.get(&number), of_delivery.get(&(number + 1))) else {
                continue;
            };
            let pause = second.saturating_duration_since(*first);
            all += 1;
            early += usize::from(pause + TOLERANCE < delay);
            latest = latest.max(pause.saturating_sub(delay));
        }
    }
    let unfinished = count_unfinished(&tries);
    row.check(unfinished == 0, || {
        format!("{unfinished} deliveries were not repeated to the end")
    });
    row.check(early == 0, || format!("{early} of {all} repetitions came early"));
    let arrivals = stage.machines.sink.arrivals();
    let needless = arrivals.iter().filter(|arrival| arrival.path == "/flaky").count()
        - tries.values().map(HashMap::len).sum::<usize>();
    row.check(needless == 0, || format!("{needless} attempts were made twice"));
    row.note(&format!(
        "{all} repetitions, {early} early, {:.1} s late at most",
        latest.as_secs_f64()
    ));
    Ok(row)
}

/// When each attempt of each delivery to `/flaky` first arrived, by delivery id and retry count.
fn first_arrivals(stage: &Stage) -> HashMap<String, HashMap<u32, Instant>> {
    let mut tries: HashMap<String, HashMap<u32, Instant>> = HashMap::new();
    for arrival in stage.machines.sink.arrivals() {
        if arrival.path == "/flaky" {
            let id = arrival.header("x-service-delivery").to_owned();
            let of_delivery = tries.entry(id).or_default();
            of_delivery
                .entry(arrival.retry_count())
                .or_insert(arrival.delivery.arrived);
        }
    }
    tries
}

/// The number of deliveries whose last attempt has not arrived.
fn count_unfinished(tries: &HashMap<String, HashMap<u32, Instant>>) -> usize {
    tries.values().filter(|tries| !tries.contains_key(&2)).count()
}

/// A clock that the processes of a run see in place of the machine's clock.
pub(crate) struct ShownClock {
    library: PathBuf,
    folder: TempDir,
}

impl ShownClock {
    /// A clock that starts with the right time.
    pub(crate) fn new() -> Result<Self> {
        let library = ensure_library()?;
        let folder = tempfile::Builder::new().prefix("prs-clock-").tempdir()?;
        // The database server runs as another user.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let clock = Self { library, folder };
        clock.set(RIGHT)?;
        Ok(clock)
    }

    /// Environment variables of a process that sees this clock.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset().display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            // Deadlines use the monotonic clock, which never jumps.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    /// Sets the offset from the right time, for all processes at once.
    pub(crate) fn set(&self, offset: &str) -> Result<()> {
        let next = self.folder.path().join("next");
        fs::write(&next, format!("{offset}\n"))?;
        Ok(fs::rename(next, self.offset())?)
    }

    fn offset(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

fn ensure_library() -> Result<PathBuf> {
    if let Some(library) = find_library() {
        return Ok(library);
    }
    packages::install(&["libfaketime"])?;
    find_library().context("libfaketime is installed, but its library is missing")
}

fn find_library() -> Option<PathBuf> {
    let folders = fs::read_dir(LIBRARIES).ok()?.flatten();
    folders
        .map(|folder| folder.path().join(FAKETIME))
        .find(|library| library.is_file())
}
