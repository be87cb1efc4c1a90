//! Actions of a payer on the payment page, as the page and the API report them.

use crate::{
    domain::{
        refusal::{Checks, Refusal},
        secure_payment::step::{KNOWN, PageReport, PayerStepKind},
    },
    http::forms::{
        text::{LINE, Reads, text},
        wire::*,
        words::words,
    },
};
use poem_openapi::{Object, types::Example};

words! {
    /// Action of a payer on the payment page
    PayerStepKind as "PayerStep";
}

text! {
    /// Name of a wallet program.
    ProviderText {
        pattern: LINE,
        length_max: 64,
        example: "metamask",
        hint: "must be one line of at most 64 characters, without control, invisible or text direction characters",
    }
    /// A hash of the address of a wallet.
    AddressHashText {
        pattern: "^(0x)?[0-9a-fA-F]{64}$",
        length_max: 66,
        example: "5f2b7c1d9e3a40618293a4b5c6d7e8f90a1b2c3d4e5f60718f4e1b2a7c6d5e9f",
        hint: "must be a hash of 64 hexadecimal digits",
    }
    /// Id that a wallet returned: the hash of a transaction, or the id of a batch of calls.
    SubmissionIdText {
        pattern: "^[0-9A-Za-z._:-]{1,255}$",
        length_max: 255,
        example: "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071",
        hint: "must have 1 to 255 ASCII letters, digits, dots, colons, dashes or underscores",
    }
    /// A machine-readable word.
    CodeText {
        pattern: "^[0-9A-Za-z_-]{1,32}$",
        length_max: 32,
        example: "evm_tx_hash",
        hint: "must have 1 to 32 ASCII letters, digits, dashes or underscores",
    }
}

/// Details of a payer action. Unknown properties are dropped, and no property may contain the address of a wallet.
#[derive(Debug, Clone, Object)]
#[oai(skip_serializing_if_is_none)]
pub struct PayerStepProperties {
    /// Wallet program. Example: `metamask`
    #[oai(nullable)]
    pub wallet_provider: Option<ProviderText>,
    /// Hash of the wallet address. Example: `5f2b7c1d9e3a40618293a4b5c6d7e8f90a1b2c3d4e5f60718f4e1b2a7c6d5e9f`
    #[oai(nullable)]
    pub wallet_address_hashed: Option<AddressHashText>,
    /// Id that the wallet returned. The hash of a transaction on Tron (type `tron_tx_id`) may also be 64 hexadecimal
    /// digits without `0x`; the event has `0x` in front of them.
    /// Example: `0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071`
    #[oai(nullable)]
    pub payment_submission_id: Option<SubmissionIdText>,
    /// Kind of the id that the wallet returned. Example: `evm_tx_hash`
    #[oai(nullable)]
    pub payment_submission_id_type: Option<CodeText>,
    /// Selected chain. Example: `sepolia`
    #[oai(nullable)]
    pub selected_source_chain: Option<CodeText>,
    /// Kind of the payment. Example: `direct`
    #[oai(nullable)]
    pub payment_type: Option<CodeText>,
}

/// Action of a payer on the payment page.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct PayerStepBody {
    /// The action
    pub user_event: PayerStepKind,
    /// Time of the action, by the clock of the browser
    pub occurred_at: IsoInstantText,
    /// Details of the action
    #[oai(nullable)]
    pub properties: Option<PayerStepProperties>,
}

impl Example for PayerStepBody {
    fn example() -> Self {
        Self {
            user_event: PayerStepKind::WalletConnected,
            occurred_at: IsoInstantText::written("2026-01-31T12:00:00.000Z"),
            properties: None,
        }
    }
}

/// Kind of the id that a wallet on Tron returns.
const TRON_HASH: &str = "tron_tx_id";

/// Number of hexadecimal digits of the hash of a transaction.
const HASH_DIGITS: usize = 64;

/// Puts `0x` in front of the hash of a transaction on Tron, as in all other members. Source: decisions D43.
fn one_form(id: String, id_type: Option<&str>) -> String {
    let is_bare = id.len() == HASH_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_bare && id_type == Some(TRON_HASH) {
        format!("0x{id}")
    } else {
        id
    }
}

impl PayerStepBody {
    /// Parses the values. Errors: an invalid time.
    pub fn read(self) -> Result<PageReport, Refusal> {
        let mut checks = Checks::new();
        let occurred_at = checks.take("occurredAt", self.occurred_at.value());
        let given = self.properties.map_or([const { None }; 6], |properties| {
            let id_type = properties.payment_submission_id_type.map(String::from);
            let id = properties.payment_submission_id.map(String::from);
            [
                properties.wallet_provider.map(String::from),
                properties.wallet_address_hashed.map(String::from),
                id.map(|id| one_form(id, id_type.as_deref())),
                id_type,
                properties.selected_source_chain.map(String::from),
                properties.payment_type.map(String::from),
            ]
        });
        let properties = KNOWN.into_iter().zip(given);
        let step: PayerStepKind = self.user_event;
        Ok(PageReport {
            step,
            occurred_at: checks.finish_with(occurred_at)?,
            properties: properties.filter_map(|(name, value)| Some((name, value?))).collect(),
        })
    }
}
