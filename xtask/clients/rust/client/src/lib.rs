//! The generated clients, one for each document.

#![deny(warnings)]

pub mod auth;
pub mod v2;
