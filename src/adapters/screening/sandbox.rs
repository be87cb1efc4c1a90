//! The screening providers of `prs dev`. They use the format of the real providers and approve every wallet until
//! configured otherwise.

use crate::{
    domain::{address::Address, destination::ScreeningProvider, screening::SandboxAnswer},
    ports::screening::ScreeningControls,
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Providers with configurable results.
#[derive(Default)]
pub struct ScreeningSandbox {
    told: Mutex<HashMap<(ScreeningProvider, Address), SandboxAnswer>>,
}

/// Reaction of a sandbox provider to a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxReaction {
    /// It returns this body.
    Answers(String),
    /// It returns an error.
    Fails,
    /// The provider does not respond in time.
    Hangs,
}

impl ScreeningSandbox {
    fn find_answer(&self, provider: ScreeningProvider, wallet: &str) -> Option<SandboxAnswer> {
        let wallet = Address::parse(wallet).ok()?;
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        Some(
            told.get(&(provider, wallet))
                .copied()
                .unwrap_or(SandboxAnswer::Approved),
        )
    }

    /// The reaction to the body of a check. A body without a wallet gets an error.
    pub fn react(&self, provider: ScreeningProvider, question: &str) -> SandboxReaction {
        let question: Value = serde_json::from_str(question).unwrap_or_default();
        let wallet = match provider {
            ScreeningProvider::Hypernative => &question["addresses"][0],
            ScreeningProvider::Merklescience => &question["identifier"],
        };
        let wallet = wallet.as_str().unwrap_or_default();
        let is_approved = match self.find_answer(provider, wallet) {
            Some(SandboxAnswer::Approved) => true,
            Some(SandboxAnswer::Rejected) => false,
            Some(SandboxAnswer::Hang) => return SandboxReaction::Hangs,
            Some(SandboxAnswer::Error) | None => return SandboxReaction::Fails,
        };
        let body = match provider {
            ScreeningProvider::Hypernative => {
                let (word, severity) = if is_approved {
                    ("Approve", "N/A")
                } else {
                    ("Deny", "High")
                };
                let entry = json!({ "address": wallet, "recommendation": word, "severity": severity, "flags": [] });
                json!({ "success": true, "data": [entry] })
            }
            ScreeningProvider::Merklescience => {
                let (level, name) = if is_approved {
                    (0, "No Risk Detected")
                } else {
                    (5, "Critical")
                };
                json!({
                    "identifier": wallet,
                    "blockchain": question["blockchain"],
                    "risk_level": level,
                    "risk_level_verbose": name,
                })
            }
        };
        SandboxReaction::Answers(body.to_string())
    }
}

impl ScreeningControls for ScreeningSandbox {
    fn answer(&self, wallet: &Address, provider: Option<ScreeningProvider>, answer: SandboxAnswer) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = ScreeningProvider::ALL
            .into_iter()
            .filter(|one| provider.is_none_or(|meant| meant == *one));
        for provider in meant {
            told.insert((provider, *wallet), answer);
        }
    }
}
