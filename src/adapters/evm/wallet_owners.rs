//! Who owns a wallet, by its code: a Safe says who its owners are, and an account may have delegated itself.
//!
//! Every contract can say that somebody owns it. So the code of the wallet has to be that of a published Safe, which is a
//! small proxy before one of a few contracts, and these say who owns it.

use super::{
    node::{CONTRACT_CALL, Failure, Line},
    payer::returned,
};
use crate::domain::{address::Address, network::Network, secure_payment::access::OwnerProof};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bytes, U64, U256, address, b256, keccak256},
    sol,
    sol_types::SolCall,
};
use serde_json::json;

sol! {
    interface Safe {
        function getOwners() view returns (address[]);
        function getThreshold() view returns (uint256);
    }
}

/// Hashes of the deployed code of the proxy of a Safe: 1.3.0, 1.4.1 and 1.5.0.
const PROXIES: [B256; 3] = [
    b256!("b89c1b3bdf2cf8827818646bce9a8f6e372885f8c55e5c07acbd307cb133b000"),
    b256!("d7d408ebcd99b2b70be43e20253d6d92a8ea8fab29bd3be7f55b10032331fb4c"),
    b256!("4e381985ca68b3e5d27b4425fa581c19cf33146d3f887a3cfca96f55528ea46f"),
];

/// The contracts that stand behind such a proxy, on every network at the same addresses: those of 1.3.0 with their twins for
/// networks that take no transaction without a chain ID, 1.4.1 and 1.5.0, each in its two forms.
const SINGLETONS: [EvmAddress; 8] = [
    address!("d9Db270c1B5E3Bd161E8c8503c55cEABeE709552"),
    address!("69f4D1788e39c87893C980c06EdF4b7f686e2938"),
    address!("3E5c63644E683549055b9Be8653de26E0B4CD36E"),
    address!("fb1bffC9d739B8D520DaF37dF666da4C687191EA"),
    address!("41675C099F32341bf84BFc5382aF534df5C7461a"),
    address!("29fcB43b46531BcA003ddC8FCB67FFE91900C762"),
    address!("Ff51A5898e281Db6DfC7855790607438dF2ca44b"),
    address!("Edd160fEBBD92E350D4D398fb636302fccd67C7e"),
];

/// What the code of an account begins with that has delegated itself (EIP-7702); the address of the code follows.
const DELEGATION: [u8; 3] = [0xef, 0x01, 0x00];

/// Gas of a question to a Safe.
const GAS_MAX: u64 = 1_000_000;

/// What a node shows of an account behind a wallet.
pub(super) async fn read(
    line: &Line,
    network: Network,
    wallet: EvmAddress,
    account: EvmAddress,
) -> Result<OwnerProof, Failure> {
    let [code, delegation, singleton] = together(
        line,
        [
            ("eth_getCode", json!([wallet, "latest"])),
            ("eth_getCode", json!([account, "latest"])),
            ("eth_getStorageAt", json!([wallet, "0x0", "latest"])),
        ],
    )
    .await?;
    if code.is_empty() {
        return Ok(OwnerProof::Nothing);
    }
    if delegation[..] == [DELEGATION.as_slice(), wallet.as_slice()].concat() {
        return Ok(OwnerProof::Delegated);
    }
    let singleton = U256::try_from_be_slice(&singleton).unwrap_or_default();
    let is_behind = SINGLETONS
        .iter()
        .any(|known| U256::from_be_slice(known.as_slice()) == singleton);
    if !is_behind || !PROXIES.contains(&keccak256(&code)) {
        return Ok(OwnerProof::Nothing);
    }
    let asked = |data: Vec<u8>| {
        let call = json!({ "to": wallet, "gas": U64::from(GAS_MAX), "data": Bytes::from(data) });
        (CONTRACT_CALL, json!([call, "latest"]))
    };
    let questions = [
        asked(Safe::getOwnersCall {}.abi_encode()),
        asked(Safe::getThresholdCall {}.abi_encode()),
    ];
    let [owners, threshold] = together(line, questions).await?;
    let owners = returned::<Safe::getOwnersCall>(wallet, &owners)?;
    let threshold = returned::<Safe::getThresholdCall>(wallet, &threshold)?;
    Ok(OwnerProof::Safe {
        owners: owners.into_iter().map(|owner| Address::on(network, owner)).collect(),
        threshold: usize::try_from(threshold).unwrap_or(usize::MAX),
    })
}

/// Answers to questions that are put together.
async fn together<const N: usize>(
    line: &Line,
    questions: [(&str, serde_json::Value); N],
) -> Result<[Bytes; N], Failure> {
    let answers: Vec<Bytes> = line.batch(&questions).await?.into_iter().collect::<Result<_, _>>()?;
    let unreadable = |_| Failure::Unreadable("too few answers".to_owned());
    answers.try_into().map_err(unreadable)
}
