//! Secure payments, the requests that they pay, what payers say to have sent, which wallets were told to be refused, which
//! accounts own the wallets that pay, and what providers found about them.

use crate::tables::{Creation, key};
use sea_orm_migration::{prelude::*, schema::*};

pub(crate) const MIGRATION: Creation = Creation {
    path: module_path!(),
    tables: &[
        secure_payments,
        secure_payment_items,
        secure_payment_intents,
        secure_payment_refusals,
        secure_payment_owners,
        screening_questions,
        screenings,
    ],
    indexes: &INDEXES,
};

const INDEXES: [&str; 4] = [
    r#"CREATE UNIQUE INDEX "secure_payments_token_key" ON "secure_payments" ("token")"#,
    r#"CREATE INDEX "secure_payments_expiry_idx" ON "secure_payments" ("status", "expires_at")"#,
    r#"CREATE INDEX "secure_payment_items_request_idx" ON "secure_payment_items" ("platform_id", "request_row")"#,
    r#"CREATE UNIQUE INDEX "secure_payment_intents_key" ON "secure_payment_intents"
        ("platform_id", "secure_payment_id", "tx_hash")"#,
];

fn secure_payments() -> TableCreateStatement {
    Table::create()
        .table("secure_payments")
        .col(text("id"))
        .col(text("token"))
        .col(text("platform_id"))
        .col(text_null("client_row"))
        .col(text_null("client_id"))
        .col(text_null("origin"))
        .col(text("flow"))
        .col(text("kind"))
        .col(text("status"))
        .col(text("network"))
        .col(text_null("destination_wallet"))
        .col(text_null("destination_token"))
        .col(text_null("creator"))
        .col(text_null("reference"))
        .col(text_null("payer_identifier"))
        .col(text_null("recipient_identifier"))
        .col(text_null("redirect_url"))
        .col(text_null("redirect_label"))
        .col(text("access_mode"))
        .col(text_null("access_provider"))
        .col(boolean("hides_until_approved"))
        .col(boolean("hides_payee"))
        .col(json_binary("allowed_payers"))
        .col(timestamp_with_time_zone_null("hinted_at"))
        .col(timestamp_with_time_zone("created_at"))
        .col(timestamp_with_time_zone("expires_at"))
        .col(timestamp_with_time_zone_null("completed_at"))
        .col(json_binary_null("attempts"))
        .primary_key(&mut key("secure_payments_pkey", "platform_id, id"))
        .to_owned()
}

fn secure_payment_items() -> TableCreateStatement {
    Table::create()
        .table("secure_payment_items")
        .col(text("secure_payment_id"))
        .col(integer("position"))
        .col(text("platform_id"))
        .col(text("request_row"))
        .col(text("request_id"))
        .col(integer_null("fee_basis_points"))
        .col(text_null("fee_address"))
        .col(boolean("is_own_fee"))
        .col(integer_null("protocol_basis_points"))
        .col(text_null("protocol_address"))
        .col(text_null("protocol_cap"))
        .primary_key(&mut key(
            "secure_payment_items_pkey",
            "platform_id, secure_payment_id, position",
        ))
        .to_owned()
}

fn secure_payment_intents() -> TableCreateStatement {
    Table::create()
        .table("secure_payment_intents")
        .col(text("id"))
        .col(text("secure_payment_id"))
        .col(text("platform_id"))
        .col(text("tx_hash"))
        .col(text_null("payer"))
        .col(text_null("payer_eoa"))
        .col(timestamp_with_time_zone("created_at"))
        .primary_key(&mut key("secure_payment_intents_pkey", "platform_id, id"))
        .to_owned()
}

fn secure_payment_refusals() -> TableCreateStatement {
    Table::create()
        .table("secure_payment_refusals")
        .col(text("secure_payment_id"))
        .col(text("wallet"))
        .col(text("platform_id"))
        .col(big_integer("occasions"))
        .col(timestamp_with_time_zone("told_at"))
        .primary_key(&mut key(
            "secure_payment_refusals_pkey",
            "platform_id, secure_payment_id, wallet",
        ))
        .to_owned()
}

fn secure_payment_owners() -> TableCreateStatement {
    Table::create()
        .table("secure_payment_owners")
        .col(text("platform_id"))
        .col(text("secure_payment_id"))
        .col(text("wallet"))
        .col(text("account"))
        .col(timestamp_with_time_zone("proven_at"))
        .primary_key(&mut key(
            "secure_payment_owners_pkey",
            "platform_id, secure_payment_id, wallet, account",
        ))
        .to_owned()
}

fn screening_questions() -> TableCreateStatement {
    Table::create()
        .table("screening_questions")
        .col(text("platform_id"))
        .col(text("secure_payment_id"))
        .col(text("wallet"))
        .col(timestamp_with_time_zone("asked_at"))
        .col(integer("failures"))
        .col(boolean("is_open"))
        .primary_key(&mut key(
            "screening_questions_pkey",
            "platform_id, secure_payment_id, wallet",
        ))
        .to_owned()
}

fn screenings() -> TableCreateStatement {
    Table::create()
        .table("screenings")
        .col(text("platform_id"))
        .col(text("secure_payment_id"))
        .col(text("wallet"))
        .col(text("wallet_kind"))
        .col(text_null("parent_wallet"))
        .col(text("status"))
        .col(text("provider"))
        .col(text("raw_status"))
        .col(timestamp_with_time_zone("evaluated_at"))
        .primary_key(&mut key("screenings_pkey", "platform_id, secure_payment_id, wallet"))
        .to_owned()
}
