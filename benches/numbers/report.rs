//! The output: one line for each benchmark, its single runs, and the machine.

use std::time::Duration;

/// Number of runs of each benchmark; the median counts.
pub(crate) const REPEATS: usize = 3;

/// A fraction of the full amount of work, and at least one unit of it.
pub(crate) fn scaled(full: usize, scale: f64) -> usize {
    // Amounts of work are far below 2^52, so the conversion is exact.
    let part = (full as f64 * scale).round() as usize;
    part.max(1)
}

/// How a result is compared with its goal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// The ratio of our result to the baseline must be at least this.
    Ratio(f64),
    /// The ratio of our result to the baseline must be at most this.
    RatioAtMost(f64),
    /// Our result must be at most this, in the unit that is shown.
    AtMost(f64),
    /// Shown without a goal.
    None,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Name of the benchmark.
    pub(crate) name: &'static str,
    /// Unit of the results of both sides, such as `requests/s`.
    pub(crate) unit: &'static str,
    /// Our single runs.
    pub(crate) ours: Vec<f64>,
    /// Name of the baseline.
    pub(crate) baseline_name: &'static str,
    /// The single runs of the baseline.
    pub(crate) baseline: Vec<f64>,
    /// The goal.
    pub(crate) goal: Goal,
}

impl Row {
    /// A result without a baseline; the goal is reached if the result does not exceed `most`.
    pub(crate) fn at_most(name: &'static str, unit: &'static str, ours: Vec<f64>, most: f64) -> Self {
        Self {
            name,
            unit,
            ours,
            baseline_name: "",
            baseline: Vec::new(),
            goal: Goal::AtMost(most),
        }
    }
}

/// The machine and its load.
#[derive(Debug)]
pub(crate) struct Machine {
    cores: usize,
    load: String,
}

impl Machine {
    /// Reads the current load of the machine.
    pub(crate) fn look() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: Vec<&str> = load.split(' ').take(3).collect();
        Self {
            cores,
            load: load.join(" "),
        }
    }
}

/// The median of the runs.
pub(crate) fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The percentile of the durations: the smallest one that this percentage of them does not exceed.
pub(crate) fn percentile(runs: &[Duration], percent: usize) -> Duration {
    let mut sorted = runs.to_vec();
    sorted.sort();
    let position = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(position).copied().unwrap_or_default()
}

/// The rate per second.
pub(crate) fn rate_per_s(count: usize, time: Duration) -> f64 {
    let count = u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
    count / time.as_secs_f64()
}

/// A time in milliseconds.
pub(crate) fn in_ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Prints the table, the single runs and the machine.
pub(crate) fn print(rows: &[Row], before: &Machine, after: &Machine, scale: f64) {
    let header = ["name", "ours", "baseline", "ratio", "goal", "verdict"].map(str::to_owned);
    let mut lines: Vec<[String; 6]> = vec![header];
    lines.extend(rows.iter().map(cells));
    let widths: Vec<usize> = (0..6)
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    println!();
    for line in &lines {
        let padded: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("{}", padded.join("  ").trim_end());
    }
    println!();
    for row in rows {
        println!("{}: ours {}", row.name, listed(&row.ours));
        if !row.baseline.is_empty() {
            println!("{}: {} {}", row.name, row.baseline_name, listed(&row.baseline));
        }
    }
    println!(
        "machine: {} cores, load average {} before, {} after; scale {scale}",
        before.cores, before.load, after.load
    );
}

fn cells(row: &Row) -> [String; 6] {
    let ours = median(&row.ours);
    let baseline = (!row.baseline.is_empty()).then(|| median(&row.baseline));
    let ratio = baseline.map(|baseline| ours / baseline);
    let (goal, is_met) = match row.goal {
        Goal::Ratio(least) => (format!("ratio ≥ {least}"), ratio.map(|ratio| ratio >= least)),
        Goal::RatioAtMost(most) => (format!("ratio ≤ {most}"), ratio.map(|ratio| ratio <= most)),
        Goal::AtMost(most) => (format!("≤ {} {}", shown(most), row.unit), Some(ours <= most)),
        Goal::None => ("–".to_owned(), None),
    };
    let verdict = match is_met {
        Some(true) => "met",
        Some(false) => "goal missed",
        None => "–",
    };
    [
        row.name.to_owned(),
        format!("{} {}", shown(ours), row.unit),
        baseline.map_or_else(
            || "–".to_owned(),
            |baseline| format!("{} {} ({})", shown(baseline), row.unit, row.baseline_name),
        ),
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
        goal,
        verdict.to_owned(),
    ]
}

fn listed(runs: &[f64]) -> String {
    let runs: Vec<String> = runs.iter().map(|run| shown(*run)).collect();
    runs.join(", ")
}

/// Formats a number with at least three digits, and with thousands separators.
fn shown(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
