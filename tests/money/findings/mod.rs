//! Findings of earlier attacks on the payment path. Each test reproduces one finding and failed before the fix. `cargo
//! xtask test money` lists the findings, including those that are tested elsewhere.

mod crowd;
mod evidence;
mod finality;
mod identity;
