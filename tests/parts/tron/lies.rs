//! Every lie of a node, alone and beside an honest node.

use super::{Ground, payments};
use alloy::primitives::U256;
use devnet::tron::{TronForgedPayment, TronLie};
use prs::ports::chain::ChainError;
use std::collections::BTreeMap;

/// Units of the honest payment.
const UNITS: u64 = 1_000_000;

/// Which node lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Placement {
    Alone,
    FirstOfTwo,
    SecondOfTwo,
}

/// What the adapter concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    True,
    Undecided,
    Wrong,
}

fn forged(ground: &Ground) -> TronForgedPayment {
    let summary = ground.devnet.summary();
    TronForgedPayment {
        token: summary.tokens.usdt.clone(),
        payer: None,
        to: summary.accounts[1].address.clone(),
        amount: "999999999".to_owned(),
        reference: hex::encode(super::REFERENCE),
        fee_amount: "0".to_owned(),
        fee_address: None,
    }
}

fn lies(ground: &Ground, number: u64) -> Vec<(&'static str, TronLie)> {
    let at = Some(number);
    vec![
        ("missing logs", TronLie::MissingLogs),
        ("forged logs", TronLie::ForgedLogs(forged(ground))),
        ("forged log", TronLie::ForgedLog(at)),
        ("changed result", TronLie::ChangedResult(at)),
        ("empty infos", TronLie::EmptyInfos),
        ("other header", TronLie::OtherHeader(at)),
        ("wrong id", TronLie::WrongId(at)),
        ("changed transaction", TronLie::ChangedTransaction(at)),
        ("omitted transaction", TronLie::OmittedTransaction(at)),
        ("changed contractRet", TronLie::ChangedContractRet(at)),
        ("unknown blocks", TronLie::UnknownBlocks),
        ("wrong genesis", TronLie::WrongGenesis),
        (
            "forged block",
            TronLie::ForgedBlock {
                payment: forged(ground),
                number: at,
                witness_keys: true,
            },
        ),
        (
            "error in 200",
            TronLie::ErrorInOk {
                path: None,
                times: None,
            },
        ),
        (
            "quota",
            TronLie::Quota {
                status: 429,
                path: None,
                times: None,
            },
        ),
    ]
}

/// Finds and proves all final payments in a new process.
async fn read(ground: &Ground, nodes: &[usize], agreement: usize, number: u64) -> Result<Vec<U256>, ChainError> {
    let chain = ground.chain(nodes, agreement);
    let tip = chain.tip(None).await?;
    let to = tip.finalized.number.min(number + 1);
    let listed = chain.list_events(1, to, true).await?;
    let hinted = listed.hints.iter().map(|(hint, _)| hint.block_number);
    let mut heights: Vec<u64> = hinted.chain(listed.unlisted).collect();
    heights.sort_unstable();
    heights.dedup();
    let mut found = Vec::new();
    for height in heights {
        let settled = chain.settled(height).await?;
        found.extend(payments(&settled).iter().map(|payment| payment.units));
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lie_of_one_node_of_two_credits_a_payment_wrongly() {
    let ground = Ground::start(2).await;
    ground.approve().await;
    let (_, number) = ground.pay(UNITS).await;
    ground.devnet.mine(4).await.expect("mined");
    let truth = vec![U256::from(UNITS)];
    let mut verdicts: BTreeMap<(Placement, Verdict), Vec<&str>> = BTreeMap::new();
    for (name, lie) in lies(&ground, number) {
        ground.devnet.set_lies(0, &[lie]).await.expect("a lie");
        for (placement, nodes, agreement) in [
            (Placement::Alone, &[0][..], 1),
            (Placement::FirstOfTwo, &[0, 1], 2),
            (Placement::SecondOfTwo, &[1, 0], 2),
        ] {
            let verdict = match read(&ground, nodes, agreement, number).await {
                Ok(found) if found == truth => Verdict::True,
                Ok(found) if found.is_empty() => Verdict::Undecided,
                Ok(_) => Verdict::Wrong,
                Err(_) => Verdict::Undecided,
            };
            verdicts.entry((placement, verdict)).or_default().push(name);
        }
        ground.devnet.set_lies(0, &[]).await.expect("honest again");
        let after = read(&ground, &[0, 1], 2, number).await.expect("a result");
        assert_eq!(after, truth, "after: {name}");
    }
    for ((placement, verdict), names) in &verdicts {
        println!("{placement:?} {verdict:?}: {}", names.join(", "));
    }
    let wrong = |placement| verdicts.get(&(placement, Verdict::Wrong)).cloned().unwrap_or_default();
    assert!(wrong(Placement::FirstOfTwo).is_empty() && wrong(Placement::SecondOfTwo).is_empty());
    // A single node that invents a whole block is believed, as on every network.
    assert_eq!(wrong(Placement::Alone), ["forged block"]);
}
