//! Whether the client ID that made a recurring payment may still have it begin.

use super::Schedule;
use crate::domain::{
    client_id::ClientId,
    client_limits::Asked,
    currency::Catalogue,
    refusal::{Checks, Refusal},
    request::plan::{OfClient, bound_payee, field},
};

/// What a public client ID is told where the operator pays no gas for strangers.
const CLOSED_TO_PUBLIC: &str = "Client IDs with allowed domains may make no recurring payments on this service \
                                (relayer.public_client_ids): everybody reads them off a page, and each payment costs gas; \
                                use an API key or a client ID without domains";

/// Errors: a public client ID, where the operator lets none of them make recurring payments (403).
pub fn require_may_make(is_public: bool, may_public_make: bool) -> Result<(), Refusal> {
    if is_public && !may_public_make {
        return Err(Refusal::forbidden(CLOSED_TO_PUBLIC));
    }
    Ok(())
}

impl Schedule {
    /// Holds what the payer signed against what the client ID that made it may ask for now: what its owner ended or
    /// narrowed meanwhile does not begin.
    ///
    /// Errors: the client ID is not active (403); another payee than the one that a public client ID is bound to, and each
    /// limit that the payment is beyond (400). Source: decisions D33; decisions D49.
    pub fn require_permitted(
        &self,
        maker: &ClientId,
        of_maker: &OfClient,
        catalogue: &Catalogue,
    ) -> Result<(), Refusal> {
        let ended = |refused: Refusal| {
            let sentence = format!(
                "The client ID that made this recurring payment is not active: {}",
                refused.message
            );
            Refusal::forbidden(sentence)
        };
        maker.require_active().map_err(ended)?;
        let mut checks = Checks::new();
        let mut fail = |member: &str, sentence: &str| {
            let sentence = format!(
                "permits a payment that its client ID, {}, may not ask for: {member} {sentence}",
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
                let asked = Asked {
                    payee: Some(payee),
                    network: self.network,
                    amount: &self.asked.amount,
                    invoice,
                    payment,
                    is_public: maker.is_public(),
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
