//! Checks whether the client ID that created a recurring payment may still activate it.

use super::Schedule;
use crate::domain::{
    client_id::ClientId,
    client_limits::CheckedPayment,
    currency::Catalogue,
    refusal::{Checks, Refusal},
    request::plan::{OfClient, bound_payee, field},
};

/// The message for a public client ID when the operator does not allow them to create recurring payments, whose gas the
/// operator pays.
const CLOSED_TO_PUBLIC: &str = "Client IDs with allowed domains cannot create recurring payments on this service \
                                (relayer.public_client_ids): anyone can read such a client ID on a page, and each \
                                payment costs gas; use an API key or a client ID without domains";

/// Checks whether a client ID may create recurring payments. Errors: the client ID is public, and the operator does not
/// allow this for public client IDs (403).
pub fn require_may_make(is_public: bool, may_public_make: bool) -> Result<(), Refusal> {
    if is_public && !may_public_make {
        return Err(Refusal::forbidden(CLOSED_TO_PUBLIC));
    }
    Ok(())
}

impl Schedule {
    /// Checks the signed payment against the current limits of the client ID that created it. A client ID that was
    /// revoked or got narrower limits since then cannot activate the payment.
    ///
    /// Errors: the client ID is not active (403); the client ID is public and bound to another payee (400); the payment
    /// exceeds a limit (400). Source: decisions D33; decisions D49.
    pub fn require_permitted(
        &self,
        maker: &ClientId,
        of_maker: &OfClient,
        catalogue: &Catalogue,
    ) -> Result<(), Refusal> {
        let ended = |refused: Refusal| {
            let sentence = format!(
                "The client ID that created this recurring payment is not active: {}",
                refused.message
            );
            Refusal::forbidden(sentence)
        };
        maker.require_active().map_err(ended)?;
        let mut checks = Checks::new();
        let mut fail = |member: &str, sentence: &str| {
            let sentence = format!(
                "permits a payment that the client ID of this recurring payment, {}, may not request: {member} \
                 {sentence}",
                maker.client_id
            );
            checks.fail("permitSignature", sentence);
        };
        let payee = self.permit.recipient;
        if let Some(bound) = &of_maker.bound
            && let Err(sentence) = bound_payee(bound, of_maker.hides_bound(), Some(payee), self.network)
        {
            fail("payee", &sentence);
        }
        let payment = catalogue.by_token(self.network, &self.permit.token);
        match payment.zip(catalogue.find(&self.asked.currency)) {
            Some((payment, invoice)) => {
                let asked = CheckedPayment {
                    payee: Some(payee),
                    network: self.network,
                    amount: &self.asked.amount,
                    invoice,
                    payment,
                    is_outsider: maker.is_public(),
                };
                for (part, sentence) in of_maker.limits.breaches(&asked, catalogue) {
                    fail(field(part), &sentence);
                }
            }
            None => fail("paymentCurrency", "must be a currency of this service"),
        }
        checks.finish()
    }
}
