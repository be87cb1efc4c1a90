//! Issues the transactions that pay requests, for all operations that return calldata.

mod batch_terms;
mod draft;
mod handout;
pub mod keep;
pub mod legs;
pub mod lookup;
mod prepare;

use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Percent,
        client_id::ClientId,
        network::Network,
        paying::{
            PayerMeans, PaymentTransactions, charge::Charges, contracts::check_receivers, prepared::PreparedPayment,
        },
        refusal::Refusal,
        request::Request,
    },
    flows::FlowResult,
};
use batch_terms::check_gas;
use draft::draft;
use handout::PaymentDraft;
pub use handout::{HandedPayment, Handout, HandoutError, PayingWallet, PaymentDue, PaymentPacking};
use legs::payment_contracts;
use lookup::Lookup;

/// Issues the transactions of one payment, with unlimited approvals. `wallet` is the payer and the field that names it.
/// Errors: those of [`hand_out`].
pub async fn hand_out_alone(
    ctx: &Ctx,
    lookup: &Lookup,
    due: PaymentDue,
    wallet: Option<(&str, Address)>,
) -> FlowResult<Handout> {
    let paying = PayingWallet::allowing_everything(wallet.map(|(_, address)| address));
    let handout = hand_out(ctx, lookup, vec![due], paying, PaymentPacking::Alone).await;
    handout.map_err(|error| match (error, wallet) {
        (HandoutError::Payer(flaw), Some((field, _))) => flaw.refusal(field).into(),
        (error, _) => error.alone(),
    })
}

/// Issues the transactions that pay the amounts due, and looks up the payer.
///
/// Charges that go to several receivers are paid through the batch contract, so that the transaction pays all of them
/// or none. No node is queried for a single direct payment if the call names no wallet and the charges go to at most
/// one receiver, except for estimates on a network whose transactions the service prepares.
///
/// Errors: no contract can pay a request, there are too many requests, the payer can pay nothing, or an estimated fee
/// is above its limit (400); no node responds in time to a needed query, or there is no accepted rate (502).
pub async fn hand_out(
    ctx: &Ctx,
    lookup: &Lookup,
    due: Vec<PaymentDue>,
    wallet: PayingWallet,
    packing: PaymentPacking,
) -> Result<Handout, HandoutError> {
    let handed_out = async {
        let draft = draft(ctx, lookup, due, wallet, packing).await?;
        let prepared = prepare::prepare(ctx, lookup, &draft, wallet.address).await?;
        let coin_rate = match &prepared {
            Some(_) => prepare::coin_rate(ctx, lookup.network()).await?,
            None => None,
        };
        let PaymentDraft {
            bundle,
            payments,
            executor,
            standings,
            steps,
            ..
        } = draft;
        let costs = prepared.as_ref().map(PreparedPayment::costs);
        Ok(Handout {
            charges: executor.paid().to_vec(),
            spendings: executor.spendings().to_vec(),
            payer: PayerMeans::of(executor.as_ref(), steps.approvals.len(), costs, standings),
            is_of_safe: wallet.is_safe,
            ends_at: match payments.as_slice() {
                [sole] => sole.quote.map(|quote| quote.until),
                _ => None,
            },
            bundle,
            payments,
            steps,
            prepared,
            coin_rate,
        })
    };
    lookup.in_time(handed_out).await
}

/// The transactions that [`hand_out`] would issue now, without estimates and limits. Errors: those of [`hand_out`].
pub async fn list_steps(
    ctx: &Ctx,
    lookup: &Lookup,
    due: Vec<PaymentDue>,
    wallet: PayingWallet,
    packing: PaymentPacking,
) -> Result<PaymentTransactions, HandoutError> {
    let drafted = async { Ok(draft(ctx, lookup, due, wallet, packing).await?.steps) };
    lookup.in_time(drafted).await
}

/// Checks that unpaid requests can be paid with their charges, several of them in one transaction. Queries no node.
///
/// Errors: a payment with its charges is too large; the payments do not fit into one transaction; or their network has
/// no contract for several payments (400).
pub fn check_payable(ctx: &Ctx, network: Network, due: &[(Request, Charges)]) -> Result<(), HandoutError> {
    let payments = due.iter();
    let payments = payments.map(|(request, charges)| (request, request.ledger.remaining(), charges));
    let legs = legs::outlined(ctx, payments)?;
    if legs.len() == 1 {
        return Ok(());
    }
    let terms = payment_contracts(ctx, network).terms_for_gas();
    let terms = terms.ok_or(HandoutError::NoBatchContract(network))?;
    check_gas(&terms, &legs, None, ctx.payments.batch_gas)
}

/// Charges on a payment of a new request: the charges fixed in its price terms and, if they contain no fee of the
/// platform, the fee of the call. The receiver of the fee was checked before.
///
/// Errors: the fee of the client ID would go to a contract and be lost, or no contract of the network can pay the
/// receivers of all charges (400).
pub fn charges_of_new(ctx: &Ctx, request: &Request, call: Option<(Percent, Address)>) -> Result<Charges, Refusal> {
    charges(ctx, request, None, call)
}

/// Charges on a payment of an existing request, like [`charges_of_new`]. The fee of the calling client ID takes
/// precedence over the fee of the call.
pub fn charges(
    ctx: &Ctx,
    request: &Request,
    client: Option<&ClientId>,
    call: Option<(Percent, Address)>,
) -> Result<Charges, Refusal> {
    let network = request.terms.network;
    let other_client = client.filter(|client| request.origin.client.as_ref() != Some(&client.row));
    let other_fee = other_client.and_then(ClientId::fee);
    let charges = request.terms.price.charges.asked_with(other_fee, call, network);
    let charges = charges.checked(network, &ctx.catalogue)?;
    check_receivers(network, &charges)?;
    Ok(charges)
}
