//! Compares searches in the database with a filter over all payments in memory.

use super::{
    on_both,
    samples::{at, client_scope, hash, observation, request, scope, wallet},
};
use alloy::primitives::U256;
use proptest::{collection::vec, option, prelude::*, sample::select, strategy::ValueTree, test_runner::TestRunner};
use prs::{
    domain::{
        address::Address,
        block_range::BlockRange,
        ids::{ClientRowId, PaymentId, SecurePaymentId, SecurePaymentToken},
        network::Network,
        paying::charge::Charges,
        payment::{Observation, PaymentKind, ProvenTransfer, Settled},
        payment_record::PaymentRecord,
        reference::PaymentReference,
        request::Request,
        search::PaymentPosition,
        secure_payment::{
            LinkDetails, MerchantNames, PaymentFlow, PaymentItem, SecurePayment, SecurePaymentStatus,
            access::AccessPolicy, attempt::WalletAttempts,
        },
    },
    store::{
        self, Db, Scope,
        payments::{PageStart, PageWindow, PaymentFilter, SettledPayment},
    },
};
use std::collections::HashSet;

on_both! {
    a_thousand_random_searches_match_a_plain_filter
    every_filter_and_pair_of_filters_matches_a_plain_filter
    a_walk_finds_existing_payments_once_while_others_arrive
    counts_follow_a_payment_to_other_wallets
    hidden_payments_are_excluded_from_public_searches
}

const CURRENCIES: [&str; 4] = ["FAU-sepolia", "USD", "EUR", "USDC-sepolia"];
const KINDS: [PaymentKind; 3] = [PaymentKind::Direct, PaymentKind::Conversion, PaymentKind::Recurring];

/// The number of the transaction that contains a payment. Three payments share a transaction.
fn transaction(number: u64) -> u64 {
    number / 3
}

fn kept_request(number: u64) -> Request {
    let owner = if number.is_multiple_of(5) { "b" } else { "a" };
    let mut request = request(owner, number);
    request.origin.client = match number % 3 {
        0 => None,
        client => Some(ClientRowId(format!("client-{client}"))),
    };
    let pick = |from: u64| usize::try_from(from).unwrap();
    request.terms.kind = KINDS[pick((number / 7) % 3)];
    request.terms.invoice_currency = CURRENCIES[pick((number / 4) % 3)].into();
    request.terms.payment_currency = CURRENCIES[pick(number % 2) * 3].into();
    request.terms.merchant_reference = (!number.is_multiple_of(4)).then(|| format!("order {}", number % 6));
    request
}

fn settled(number: u64) -> Settled {
    let family = |number: u64| wallet(u8::try_from(20 + number % 4).unwrap());
    Settled {
        observed: Observation {
            tx_hash: hash(transaction(number)),
            position: u32::try_from(number).unwrap(),
            payee: family(number),
            ..observation(number)
        },
        proven: ProvenTransfer {
            received_units: U256::from(100),
            payer: (!number.is_multiple_of(6)).then(|| family(number / 2)),
            payer_eoa: number.is_multiple_of(3).then(|| family(number / 3)),
        },
        credited: U256::from(100),
        applied: None,
        is_quoted: false,
        fee_shortfall: None,
        further_fees: Vec::new(),
        orchestrator_fees: Default::default(),
        payer_access: None,
        is_execution: false,
        // The times do not follow the order of the ids, and several payments have the same time.
        at: at(i64::try_from((number * 7) % 40).unwrap()),
    }
}

async fn record(db: &Db, request: &Request, settled: &Settled) -> bool {
    let payment = SettledPayment {
        id: PaymentId(format!("payment-{:05}", settled.observed.position)),
        request,
        settled,
        created_at: at(0),
    };
    let tx = db.begin("record").await.unwrap();
    let written = store::payments::insert_new(&tx, &[payment]).await.unwrap();
    tx.commit().await.unwrap();
    !written.is_empty()
}

/// Records payments with these numbers, which belong to two platforms.
async fn fill(db: &Db, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let request = kept_request(number);
        store::requests::insert(db.writer(), &request).await.unwrap();
        assert!(record(db, &request, &settled(number)).await);
    }
}

/// Every payment, newest first, read from the table without the search under test.
async fn everything(db: &Db) -> Vec<PaymentRecord> {
    let all = store::payments::in_blocks(db.reader(), Network::Sepolia, BlockRange { from: 0, to: u64::MAX }).await;
    let (mut all, _) = all.unwrap();
    all.sort_by(|one, other| (other.paid_at, &other.id.0).cmp(&(one.paid_at, &one.id.0)));
    all
}

fn is_found(payment: &PaymentRecord, scope: &Scope, filter: &PaymentFilter) -> bool {
    let holds = |wallet: &Address| {
        if filter.is_wallet_payee {
            payment.payee == *wallet
        } else {
            [Some(payment.payee), payment.payer, payment.payer_eoa].contains(&Some(*wallet))
        }
    };
    payment.platform == scope.platform
        && scope
            .client
            .as_ref()
            .is_none_or(|client| payment.client.as_ref() == Some(client))
        && filter.tx_hash.is_none_or(|hash| payment.tx_hash == hash)
        && filter.wallet.as_ref().is_none_or(holds)
        && filter.reference.is_none_or(|reference| payment.reference == reference)
        && filter.request_id.as_ref().is_none_or(|id| payment.request_id == *id)
        && (filter.merchant_reference.is_none() || payment.merchant_reference == filter.merchant_reference)
        && filter.kind.is_none_or(|kind| payment.kind == kind)
        && filter
            .invoice_currencies
            .as_ref()
            .is_none_or(|ids| ids.contains(&payment.invoice_currency))
        && filter
            .payment_currencies
            .as_ref()
            .is_none_or(|ids| ids.contains(&payment.payment_currency))
        && filter.from.is_none_or(|from| payment.paid_at >= from)
        && filter.to.is_none_or(|to| payment.paid_at <= to)
}

/// Compares one page of a search with the same search by a filter in memory.
async fn compare(
    db: &Db,
    all: &[PaymentRecord],
    (scope, filter): (&Scope, &PaymentFilter),
    (offset, limit): (u64, u64),
) {
    let matches: Vec<&PaymentRecord> = all.iter().filter(|payment| is_found(payment, scope, filter)).collect();
    let begin = PageStart::Row(offset);
    let found = store::payments::search(db.reader(), scope, filter, &PageWindow { begin, limit })
        .await
        .unwrap();
    let text = format!("{scope:?} {filter:?} from {offset}, {limit} rows");
    let page = matches
        .iter()
        .skip(usize::try_from(offset).unwrap())
        .take(usize::try_from(limit).unwrap());
    let page: Vec<_> = page.map(|payment| (**payment).clone()).collect();
    let rows: Vec<_> = found.rows.iter().map(|(payment, _)| payment.clone()).collect();
    assert_eq!(rows, page, "{text}");
    assert_eq!(found.total, u64::try_from(matches.len()).unwrap(), "{text}");
    let behind = u64::try_from(matches.len()).unwrap() > offset + limit;
    assert_eq!(found.has_more, behind, "{text}");
    for (payment, request) in &found.rows {
        assert_eq!(
            (&request.request_id, request.reference),
            (&payment.request_id, payment.reference)
        );
    }
}

fn scopes() -> impl Strategy<Value = Scope> {
    select(vec![
        scope("a"),
        scope("a"),
        scope("b"),
        scope("nobody"),
        client_scope("a", "client-1"),
        client_scope("b", "client-2"),
        client_scope("a", "client-9"),
    ])
}

fn filters(payments: u64) -> impl Strategy<Value = PaymentFilter> {
    let ids = || option::weighted(0.25, vec(select(&CURRENCIES[..]), 0..3));
    let key = move || option::weighted(0.15, 0..payments);
    let times = option::weighted(0.25, -1..41_i64);
    let of_rows = (key(), key(), key(), key());
    let others = (
        option::weighted(0.35, 18..25_u8),
        any::<bool>(),
        option::weighted(0.3, select(&KINDS[..])),
    );
    (of_rows, others, (ids(), ids()), (times.clone(), times)).prop_map(
        |(
            (transactions, references, requests, orders),
            (wallets, is_wallet_payee, kind),
            (invoices, paid),
            (from, to),
        )| {
            let texts = |ids: Option<Vec<&str>>| ids.map(|ids| ids.into_iter().map(str::to_owned).collect());
            PaymentFilter {
                leaves_out_hidden: false,
                tx_hash: transactions.map(|number| hash(transaction(number))),
                wallet: wallets.map(wallet),
                is_wallet_payee,
                reference: references.map(|number| kept_request(number).reference),
                request_id: requests.map(|number| kept_request(number).id.0),
                merchant_reference: orders.map(|number| format!("order {}", number % 7)),
                kind,
                invoice_currencies: texts(invoices),
                payment_currencies: texts(paid),
                from: from.map(at),
                to: to.map(at),
            }
        },
    )
}

/// Compares this number of random searches with a filter in memory. Both databases run the same searches.
async fn compare_random(db: &Db, searches: u32, payments: u64) {
    let all = everything(db).await;
    assert_eq!(all.len(), usize::try_from(payments).unwrap());
    let mut runner = TestRunner::deterministic();
    let strategy = (scopes(), filters(payments), 0..30_u64, 1..30_u64);
    for _ in 0..searches {
        let (scope, filter, offset, limit) = strategy.new_tree(&mut runner).unwrap().current();
        compare(db, &all, (&scope, &filter), (offset, limit)).await;
    }
}

async fn a_thousand_random_searches_match_a_plain_filter(db: &Db) {
    fill(db, 0..120).await;
    compare_random(db, 1_000, 120).await;
}

async fn every_filter_and_pair_of_filters_matches_a_plain_filter(db: &Db) {
    fill(db, 0..90).await;
    let all = everything(db).await;
    let payment = all
        .iter()
        .find(|payment| payment.payer_eoa.is_some() && payment.merchant_reference.is_some());
    let payment = payment.expect("one with every member");
    let none = PaymentFilter::default;
    let filters: [fn(PaymentFilter, &PaymentRecord) -> PaymentFilter; 11] = [
        |filter, payment| PaymentFilter {
            tx_hash: Some(payment.tx_hash),
            ..filter
        },
        |filter, payment| PaymentFilter {
            wallet: Some(payment.payee),
            ..filter
        },
        |filter, payment| PaymentFilter {
            wallet: payment.payer_eoa,
            ..filter
        },
        |filter, payment| PaymentFilter {
            reference: Some(payment.reference),
            ..filter
        },
        |filter, payment| PaymentFilter {
            request_id: Some(payment.request_id.clone()),
            ..filter
        },
        |filter, payment| PaymentFilter {
            merchant_reference: payment.merchant_reference.clone(),
            ..filter
        },
        |filter, payment| PaymentFilter {
            kind: Some(payment.kind),
            ..filter
        },
        |filter, payment| PaymentFilter {
            invoice_currencies: Some(vec![payment.invoice_currency.clone()]),
            ..filter
        },
        |filter, payment| PaymentFilter {
            payment_currencies: Some(vec![payment.payment_currency.clone()]),
            ..filter
        },
        |filter, payment| PaymentFilter {
            from: Some(payment.paid_at),
            ..filter
        },
        |filter, payment| PaymentFilter {
            to: Some(payment.paid_at),
            ..filter
        },
    ];
    for one in filters {
        for other in filters {
            let filter = other(one(none(), payment), payment);
            for scope in [scope("a"), scope("b"), client_scope("a", "client-1")] {
                compare(db, &all, (&scope, &filter), (0, 20)).await;
            }
        }
    }
    let unknown = [
        PaymentFilter {
            tx_hash: Some(hash(7_000)),
            ..none()
        },
        PaymentFilter {
            wallet: Some(wallet(99)),
            ..none()
        },
        PaymentFilter {
            wallet: Some(Address::Tron(wallet(21).bytes())),
            ..none()
        },
        PaymentFilter {
            reference: Some(PaymentReference([9; 8])),
            ..none()
        },
        PaymentFilter {
            request_id: Some("nothing".into()),
            ..none()
        },
        PaymentFilter {
            merchant_reference: Some("nothing".into()),
            ..none()
        },
        PaymentFilter {
            kind: Some(PaymentKind::Crosschain),
            ..none()
        },
        PaymentFilter {
            invoice_currencies: Some(vec!["GBP".into()]),
            ..none()
        },
        PaymentFilter {
            payment_currencies: Some(Vec::new()),
            ..none()
        },
        PaymentFilter {
            from: Some(at(1_000)),
            ..none()
        },
    ];
    for filter in unknown {
        assert!(
            !all.iter().any(|payment| is_found(payment, &scope("a"), &filter)),
            "{filter:?}"
        );
        compare(db, &all, (&scope("a"), &filter), (0, 20)).await;
    }
}

async fn a_walk_finds_existing_payments_once_while_others_arrive(db: &Db) {
    let mut runner = TestRunner::deterministic();
    let arrivals = vec(0..4_u64, 40);
    let mut next = 60;
    fill(db, 0..next).await;
    for _ in 0..12 {
        let strategy = (filters(next), 1..9_u64, arrivals.clone());
        let (mut filter, limit, arrivals) = strategy.new_tree(&mut runner).unwrap().current();
        (filter.tx_hash, filter.reference, filter.request_id) = (None, None, None);
        let there: Vec<_> = everything(db)
            .await
            .into_iter()
            .filter(|one| is_found(one, &scope("a"), &filter))
            .collect();
        let (mut walked, mut begin, mut arrivals) = (Vec::new(), PageStart::Row(0), arrivals.into_iter());
        loop {
            let found = store::payments::search(db.reader(), &scope("a"), &filter, &PageWindow { begin, limit }).await;
            let found = found.unwrap();
            walked.extend(found.rows.into_iter().map(|(payment, _)| payment));
            if !found.has_more {
                break;
            }
            let last: &PaymentRecord = walked.last().unwrap();
            begin = PageStart::After(PaymentPosition {
                paid_at: last.paid_at,
                id: last.id.clone(),
            });
            let arrived = arrivals.next().unwrap_or(0);
            fill(db, next..next + arrived).await;
            next += arrived;
        }
        let ids: HashSet<_> = walked.iter().map(|payment| &payment.id.0).collect();
        assert_eq!(ids.len(), walked.len(), "none twice");
        assert!(walked.is_sorted_by(|one, other| (one.paid_at, &one.id.0) > (other.paid_at, &other.id.0)));
        let known: HashSet<_> = there.iter().map(|payment| &payment.id.0).collect();
        let walked_before: Vec<_> = walked
            .iter()
            .filter(|payment| known.contains(&payment.id.0))
            .cloned()
            .collect();
        assert_eq!(walked_before, there, "all payments that existed before: {filter:?}");
    }
}

/// Changes the payer of the first payment to wallet 50. Such a change happens if the payment is included again with
/// another payer.
async fn move_to_another_payer(db: &Db) {
    let request = kept_request(1);
    let mut moved = settled(1);
    moved.proven.payer = Some(wallet(50));
    let payment = SettledPayment {
        id: PaymentId("another".into()),
        request: &request,
        settled: &moved,
        created_at: at(0),
    };
    let tx = db.begin("relocate").await.unwrap();
    store::payments::relocate(&tx, &payment).await.unwrap();
    tx.commit().await.unwrap();
}

async fn counts_follow_a_payment_to_other_wallets(db: &Db) {
    fill(db, 0..12).await;
    move_to_another_payer(db).await;
    let all = everything(db).await;
    for number in [20, 21, 22, 23, 50] {
        let filter = PaymentFilter {
            wallet: Some(wallet(number)),
            ..PaymentFilter::default()
        };
        // A page after the last row does not show the total, so the stored count is used.
        for offset in [0, 100] {
            compare(db, &all, (&scope("a"), &filter), (offset, 5)).await;
        }
    }
}

/// A link whose policy hides data, for some of the requests that [`fill`] creates.
fn hiding(numbers: &[u64], policy: AccessPolicy) -> SecurePayment {
    let requests: Vec<Request> = numbers.iter().map(|number| kept_request(*number)).collect();
    let item = |request: &Request| PaymentItem {
        request: request.row.clone(),
        request_id: request.id.clone(),
        charges: Charges::default(),
        child: None,
    };
    SecurePayment {
        id: SecurePaymentId(format!("link-{}", numbers[0])),
        token: SecurePaymentToken(format!("token-{}", numbers[0])),
        origin: requests[0].origin.clone(),
        flow: PaymentFlow::Pay,
        status: SecurePaymentStatus::Pending,
        network: Network::Sepolia,
        destination: None,
        creator: None,
        policy,
        about: LinkDetails::default(),
        hinted_at: None,
        attempts: WalletAttempts::default(),
        lock: None,
        locks_released_at: None,
        created_at: at(0),
        expires_at: at(1_000),
        completed_at: None,
        items: requests.iter().map(item).collect(),
    }
}

async fn insert(db: &Db, link: &SecurePayment) {
    let tx = db.begin("a link").await.unwrap();
    store::secure_payments::insert(&tx, link, &MerchantNames::default())
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

/// Hides every fourth of the first eighty requests of platform `a`. Half of them are hidden by links that show the
/// payee.
async fn hide_some(db: &Db) {
    let numbers: Vec<u64> = (0..80).filter(|number| number % 5 != 0 && number % 4 == 1).collect();
    for (index, numbers) in numbers.chunks(4).enumerate() {
        let policy = AccessPolicy {
            hides_until_approved: index % 2 == 0,
            hides_payee: index % 2 == 1,
            ..AccessPolicy::OPEN
        };
        insert(db, &hiding(numbers, policy)).await;
    }
}

fn is_hidden(payment: &PaymentRecord) -> bool {
    payment.platform == scope("a").platform && payment.position % 4 == 1
}

async fn hidden_payments_are_excluded_from_public_searches(db: &Db) {
    fill(db, 0..60).await;
    for number in 60..80 {
        store::requests::insert(db.writer(), &kept_request(number))
            .await
            .unwrap();
    }
    hide_some(db).await;
    let ids = (0..80).map(|number| kept_request(number).id.0);
    let hidden = store::requests::hidden_among(db.reader(), &scope("a").platform, ids)
        .await
        .unwrap();
    for number in 60..80 {
        // If a request was hidden after it was read, a payment must not be credited to the copy that was read.
        let stale = kept_request(number);
        let owner = Scope {
            platform: stale.origin.platform.clone(),
            client: None,
        };
        let request = store::requests::find(db.reader(), &owner, stale.id.as_str())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(request.is_hidden, hidden.contains(stale.id.as_str()));
        let written = store::requests::advance(db.writer(), &stale, &stale.ledger, at(0)).await;
        assert_eq!(written.unwrap(), !request.is_hidden);
        assert!(record(db, &request, &settled(number)).await);
    }
    let all = everything(db).await;
    let shown: Vec<_> = all.iter().filter(|payment| !is_hidden(payment)).cloned().collect();
    assert_eq!((all.len(), shown.len()), (80, 80 - hidden.len()));
    let mut runner = TestRunner::deterministic();
    let strategy = (scopes(), filters(80), 0..30_u64, 1..30_u64);
    for _ in 0..300 {
        let (scope, filter, offset, limit) = strategy.new_tree(&mut runner).unwrap().current();
        compare(db, &all, (&scope, &filter), (offset, limit)).await;
        let filter = PaymentFilter {
            leaves_out_hidden: true,
            ..filter
        };
        compare(db, &shown, (&scope, &filter), (offset, limit)).await;
    }
    // A hidden payment stays hidden when its payer changes, even if its request was read before the request was hidden.
    move_to_another_payer(db).await;
    for (leaves_out_hidden, total) in [(false, 1), (true, 0)] {
        let filter = PaymentFilter {
            wallet: Some(wallet(50)),
            leaves_out_hidden,
            ..PaymentFilter::default()
        };
        let begin = PageStart::Row(0);
        let found = store::payments::search(db.reader(), &scope("a"), &filter, &PageWindow { begin, limit: 5 }).await;
        assert_eq!(found.unwrap().total, total);
    }
}
