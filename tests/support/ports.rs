//! Free ports for programs that need to know their port before they start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// All ports are below the system's ephemeral ports, so no outgoing connection can take a port between the check that
/// it is free and the start of the program.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Number of ports per process.
const OF_A_PROCESS: u32 = 16;

static LOOKED_AT: AtomicU16 = AtomicU16::new(0);

/// A free port.
///
/// # Panics
/// If all ports of [`PORTS`] are taken.
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
