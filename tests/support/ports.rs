//! Ports for programs that are told where to listen.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that a system gives to calls that go out: such a call, of any test, takes none of these between the look and
/// the start of the program.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// How many ports a process looks at before those of the next one begin.
const OF_A_PROCESS: u32 = 16;

static LOOKED_AT: AtomicU16 = AtomicU16::new(0);

/// A port that nobody listens on.
///
/// # Panics
/// If all of them are taken.
pub fn free() -> u16 {
    let of_this_process = std::process::id().wrapping_mul(OF_A_PROCESS) % u32::from(PORTS.end - PORTS.start);
    let of_this_process = u16::try_from(of_this_process).expect("less than all ports");
    for _ in PORTS {
        let next = LOOKED_AT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + of_this_process.wrapping_add(next) % (PORTS.end - PORTS.start);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("every port of {PORTS:?} is taken");
}
