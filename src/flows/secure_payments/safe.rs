//! Checks whether a paying wallet is a Safe.

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        refusal::Refusal,
        safe::{SafeVersion, is_proxy},
        secure_payment::SecurePayment,
    },
    flows::FlowResult,
};

/// Message for a wallet that is no Safe.
const NO_SAFE: &str = "must be false or absent: the wallet is no Safe of version 1.3.0, 1.4.1 or 1.5.0 on the network \
                       of this payment";

/// The paying Safe; `None` if the call names none. Errors: the wallet is no Safe (400).
pub(super) async fn find(ctx: &Ctx, payment: &SecurePayment, safe: Option<Address>) -> FlowResult<Option<Address>> {
    let Some(wallet) = safe else {
        return Ok(None);
    };
    let no_safe = || Refusal::field("isSafe", NO_SAFE);
    let wallets = ctx.partners.chains.wallets.get(&payment.network);
    let found = wallets.ok_or_else(no_safe)?.safe_at(wallet).await?;
    let version = found.filter(|found| is_proxy(&found.code_hash)).and_then(|found| {
        let contracts = ctx.catalogue.contracts(payment.network).iter();
        let mut versions = contracts
            .filter(|contract| contract.address == found.singleton)
            .filter_map(|contract| SafeVersion::of_singleton(contract.kind));
        versions.find(|version| version.wire() == found.version)
    });
    version.ok_or_else(no_safe)?;
    Ok(Some(wallet))
}
