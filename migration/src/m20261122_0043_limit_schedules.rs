//! What recurring payments were asked for, which of them are live, and which wait for a signature.

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "schedules";
const OF_PAYER: &str = "schedules_payer_idx";
const PAYER: [&str; 3] = ["payer", "token", "contract"];
const NEW: [(&str, &[&str]); 3] = [
    (OF_PAYER, &["payer", "token", "contract", "status"]),
    ("schedules_live_idx", &["platform_id", "status", "client_row"]),
    ("schedules_status_idx", &["status", "created_at"]),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["asked_amount", "asked_currency"] {
            let added = Table::alter()
                .table(TABLE)
                .add_column(text(column).default(""))
                .to_owned();
            manager.alter_table(added).await?;
        }
        // Those of before are held to what they pay: in which currency they were asked for is not known any more.
        let paid = "FROM schedule_executions INNER JOIN requests ON requests.id = schedule_executions.request_row \
                    WHERE schedule_executions.schedule_id = schedules.id AND schedule_executions.number = 1";
        let fill = Query::update()
            .table(TABLE)
            .value("asked_amount", Expr::cust(format!("(SELECT requests.amount {paid})")))
            .value(
                "asked_currency",
                Expr::cust(format!("(SELECT requests.payment_currency {paid})")),
            )
            .to_owned();
        manager.execute(fill).await?;
        drop_index(manager, OF_PAYER).await?;
        for (name, columns) in NEW {
            create_index(manager, name, columns).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in NEW {
            drop_index(manager, name).await?;
        }
        create_index(manager, OF_PAYER, &PAYER).await?;
        for column in ["asked_currency", "asked_amount"] {
            let removed = Table::alter().table(TABLE).drop_column(column).to_owned();
            manager.alter_table(removed).await?;
        }
        Ok(())
    }
}

async fn create_index(manager: &SchemaManager<'_>, name: &'static str, columns: &[&'static str]) -> Result<(), DbErr> {
    let mut index = Index::create().name(name).table(TABLE).to_owned();
    for column in columns {
        index.col(*column);
    }
    manager.create_index(index).await
}

async fn drop_index(manager: &SchemaManager<'_>, name: &'static str) -> Result<(), DbErr> {
    manager
        .drop_index(Index::drop().name(name).table(TABLE).to_owned())
        .await
}
