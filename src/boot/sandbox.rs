//! Developer controls of `prs dev`.

use super::clock::MovableClock;
use crate::{
    domain::{address::Address, off_ramp_sandbox::OffRampBehaviour},
    ports::{
        clock::Clock,
        off_ramp::OffRampControls,
        sandbox::{SandboxWallet, TimeMachine, WalletCall},
    },
};
use alloy::primitives::B256;
use anyhow::{Context, bail};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use devnet::{
    Devnet,
    off_ramp::{self, OffRampSandbox},
    tron::TronDevnet,
};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Moves the clock of the service and of the local chains together.
pub(super) struct LocalTime {
    clock: Arc<MovableClock>,
    chains: Mutex<LocalChains>,
}

/// The local chains.
#[derive(Clone)]
pub(super) struct LocalChains {
    /// The EVM chain.
    pub(super) evm: Arc<Devnet>,
    /// The chain of Tron, if this machine has what it needs.
    pub(super) tron: Option<Arc<TronDevnet>>,
}

impl LocalTime {
    pub(super) fn new(clock: Arc<MovableClock>, chains: LocalChains) -> Self {
        Self {
            clock,
            chains: Mutex::new(chains),
        }
    }
}

#[async_trait]
impl TimeMachine for LocalTime {
    async fn forward(&self, by: TimeDelta) -> anyhow::Result<DateTime<Utc>> {
        let by = by.to_std().context("time only moves forward")?;
        // Clock changes run one after the other, so that the clocks stay equal.
        let chains = self.chains.lock().await;
        chains
            .evm
            .increase_time(by.as_secs())
            .await
            .context("the time of the local chain could not be moved forward")?;
        if let Some(tron) = &chains.tron {
            let moved = tron.forward(by).await;
            moved.context("the time of the local chain of Tron could not be moved forward")?;
        }
        self.clock.forward(by);
        Ok(self.clock.now())
    }
}

/// The account of the local chain that pays in the examples of the documentation.
pub(super) struct LocalWallet {
    chain: Arc<Devnet>,
    index: usize,
    address: Address,
}

impl LocalWallet {
    /// Errors: the chain has fewer accounts.
    pub(super) fn new(chain: Arc<Devnet>, index: usize) -> anyhow::Result<Self> {
        let account = chain.accounts().get(index).context("too few accounts")?;
        Ok(Self {
            address: Address::Evm(account.address),
            index,
            chain,
        })
    }
}

#[async_trait]
impl SandboxWallet for LocalWallet {
    fn address(&self) -> Address {
        self.address
    }

    async fn send(&self, calls: &[WalletCall]) -> anyhow::Result<Vec<B256>> {
        let mut hashes = Vec::new();
        for call in calls {
            let sent = self
                .chain
                .send(self.index, call.to, call.data.clone(), call.value)
                .await?;
            if !sent.status {
                bail!("{} has no effect", sent.tx_hash);
            }
            hashes.push(sent.tx_hash);
        }
        Ok(hashes)
    }
}

impl OffRampControls for OffRampSandbox {
    fn behave(&self, behaviour: OffRampBehaviour) {
        Self::behave(
            self,
            match behaviour {
                OffRampBehaviour::Normal => off_ramp::OffRampBehaviour::Normal,
                OffRampBehaviour::Slow => off_ramp::OffRampBehaviour::Slow,
                OffRampBehaviour::Hang => off_ramp::OffRampBehaviour::Hang,
                OffRampBehaviour::Down => off_ramp::OffRampBehaviour::Down,
                OffRampBehaviour::Silent => off_ramp::OffRampBehaviour::Silent,
                OffRampBehaviour::WrongAddress => off_ramp::OffRampBehaviour::WrongAddress,
                OffRampBehaviour::OtherPayer => off_ramp::OffRampBehaviour::OtherPayer,
                OffRampBehaviour::StaleVersion => off_ramp::OffRampBehaviour::StaleVersion,
            },
        );
    }
}
