//! Platforms, keys of both kinds of owner, and client IDs.

use super::{
    on_both,
    samples::{at, platform, wallet},
};
use prs::{
    domain::{
        amount::Percent,
        client_id::{ClientId, ClientStatus},
        client_limits::ClientLimits,
        ids::{ClientRowId, KeyId, Owner},
    },
    store::{self, Db, keys::StoredApiKey},
};

on_both! {
    keys_and_client_ids_are_found_by_their_credentials
    lists_contain_all_active_entries_and_the_last_revoked_ones
}

fn key(number: i64) -> StoredApiKey {
    StoredApiKey {
        id: KeyId(format!("key-{number:04}")),
        owner: Owner::from(&platform("a")),
        hash: format!("{number:064}"),
        hint: "abcdefgh".into(),
        label: None,
        created_at: at(number),
        revoked_at: None,
        last_used_at: None,
    }
}

fn client(number: i64, status: ClientStatus, domains: &[&str]) -> ClientId {
    ClientId {
        row: ClientRowId(format!("client-{number}")),
        platform: platform("a"),
        client_id: format!("cli_{number}"),
        label: "Shop".into(),
        allowed_domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        status,
        fee_percentage: Some(Percent::parse("2.5").unwrap()),
        fee_address: Some(wallet(5)),
        payee_destination: None,
        limits: ClientLimits::default(),
        operator_wallet: None,
        default_pre_approval_expiry_s: Some(60),
        default_authorization_expiry_s: None,
        created_at: at(number),
        updated_at: at(number),
        last_used_at: None,
        orchestrator: None,
        link: None,
    }
}

async fn keys_and_client_ids_are_found_by_their_credentials(db: &Db) {
    let tenant = store::platforms::Platform {
        id: platform("a"),
        name: "Shop".into(),
        created_at: at(0),
    };
    store::platforms::insert(db.writer(), &tenant).await.unwrap();
    assert_eq!(store::platforms::list(db.reader()).await.unwrap(), [tenant]);
    let (owner, other) = (Owner::from(&platform("a")), Owner::from(&platform("b")));
    let key = key(0);
    store::keys::insert(db.writer(), &key).await.unwrap();
    store::keys::touch(db.writer(), &key.id, at(5)).await.unwrap();
    store::keys::touch(db.writer(), &key.id, at(4)).await.unwrap();
    let find = async || {
        store::keys::find_active_by_hash(db.reader(), &key.hash, at(6))
            .await
            .unwrap()
    };
    let used = StoredApiKey {
        last_used_at: Some(at(5)),
        ..key.clone()
    };
    assert_eq!(find().await, Some(used));
    assert!(!store::keys::end_at(db.writer(), &other, &key.id, at(6)).await.unwrap());
    assert!(store::keys::end_at(db.writer(), &owner, &key.id, at(6)).await.unwrap());
    assert!(!store::keys::end_at(db.writer(), &owner, &key.id, at(7)).await.unwrap());
    assert_eq!(find().await, None);
    let listed = store::keys::list(db.reader(), &owner, at(7)).await.unwrap();
    assert_eq!(listed[0].revoked_at, Some(at(6)));

    let shop = client(1, ClientStatus::Active, &["https://b.example", "https://a.example"]);
    let other = client(2, ClientStatus::Active, &["https://a.example"]);
    let gone = client(3, ClientStatus::Revoked, &["https://c.example"]);
    for client in [&shop, &other, &gone] {
        store::client_ids::insert(db.writer(), client).await.unwrap();
    }
    let domains = store::client_ids::list_active_domains(db.reader()).await.unwrap();
    assert_eq!(domains, ["https://a.example", "https://b.example"]);
    let found = store::client_ids::find_by_client_id(db.reader(), "cli_1")
        .await
        .unwrap();
    assert_eq!(found.as_ref(), Some(&shop));
    assert_eq!(
        store::client_ids::find_by_client_id(db.reader(), "cli_9")
            .await
            .unwrap(),
        None
    );
    store::client_ids::touch(db.writer(), &shop.row, at(9)).await.unwrap();
    let listed = store::client_ids::list(db.reader(), &platform("a")).await.unwrap();
    let used = ClientId {
        last_used_at: Some(at(9)),
        ..shop
    };
    assert_eq!(listed, [gone, other, used]);
    assert!(
        store::client_ids::list(db.reader(), &platform("b"))
            .await
            .unwrap()
            .is_empty()
    );
}

/// An owner may create and revoke many keys. Its lists contain every active key and only the last revoked ones, so they
/// do not grow.
async fn lists_contain_all_active_entries_and_the_last_revoked_ones(db: &Db) {
    let shown = i64::try_from(store::REVOKED_LISTED_MAX).unwrap();
    let (oldest_good, revoked) = (1, 2..shown + 12);
    let tx = db.begin("many_revoked").await.unwrap();
    store::keys::insert(&tx, &key(oldest_good)).await.unwrap();
    store::client_ids::insert(&tx, &client(oldest_good, ClientStatus::Active, &[]))
        .await
        .unwrap();
    for number in revoked.clone() {
        let ended = StoredApiKey {
            revoked_at: Some(at(number)),
            ..key(number)
        };
        store::keys::insert(&tx, &ended).await.unwrap();
        store::client_ids::insert(&tx, &client(number, ClientStatus::Revoked, &[]))
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    let expected: Vec<i64> = revoked
        .rev()
        .take(usize::try_from(store::REVOKED_LISTED_MAX).unwrap())
        .chain([oldest_good])
        .collect();
    let now = at(shown + 100);
    let keys = store::keys::list(db.reader(), &Owner::from(&platform("a")), now)
        .await
        .unwrap();
    let clients = store::client_ids::list(db.reader(), &platform("a")).await.unwrap();
    let of_keys: Vec<String> = expected.iter().map(|number| key(*number).id.0).collect();
    let of_clients: Vec<String> = expected.iter().map(|number| format!("client-{number}")).collect();
    assert_eq!(keys.into_iter().map(|key| key.id.0).collect::<Vec<_>>(), of_keys);
    assert_eq!(
        clients.into_iter().map(|client| client.row.0).collect::<Vec<_>>(),
        of_clients
    );
}
