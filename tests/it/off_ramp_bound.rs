//! One request is paid out to one bank account. The service stores the deposit addresses of the request and uses them
//! for no other account, whatever the partner returns and also under concurrent calls.

use crate::support::{
    Answer,
    fiat::{CLIENT_USER, Fiat},
    off_ramp::{Change, Scripted},
};
use futures_util::future::join_all;
use prs::domain::off_ramp::OrderState;
use serde_json::{Value, json};

const OTHER_USER: &str = "grace+2@example.com";

/// The deposit address in a response.
fn deposit(calldata: &Value) -> String {
    let steps = calldata["transactions"].as_array().expect("a list");
    let data = steps.last().expect("a payment")["data"].as_str().expect("a text");
    // The deposit address follows `0x`, the selector and the token.
    format!("0x{}", &data[10 + 64 + 24..10 + 128])
}

/// The orders that the partner received, read from the bodies of the recorded calls.
async fn ordered(fiat: &Fiat) -> Vec<Value> {
    let calls = fiat.partner.calls().await;
    let orders = calls.into_iter().filter(|call| call.target.ends_with("/orders"));
    orders.map(|call| call.body).collect()
}

fn says_the_same_address(fiat: &Fiat, address: &str) {
    let same = vec![("depositAddress", Change::To(json!(address)))];
    fiat.partner.answer("quote", Some(Scripted::Changed(same)));
}

#[tokio::test]
async fn only_one_of_two_concurrent_payers_gets_the_request() {
    let fiat = Fiat::start().await;
    let accounts = [
        (CLIENT_USER, fiat.compliant(CLIENT_USER, "7890").await),
        (OTHER_USER, fiat.compliant(OTHER_USER, "7891").await),
    ];
    let mut first = 0;
    for _ in 0..8 {
        let id = fiat.request("10").await;
        let asked = join_all(accounts.iter().map(|(user, account)| fiat.ask(&id, user, account, ""))).await;
        let winner = asked
            .iter()
            .position(|answer| answer.status == 200)
            .expect("one of them");
        first += usize::from(winner == 0);
        let refused = asked[1 - winner].expect(400);
        assert_eq!(refused["errors"][0]["field"], "paymentDetailsId");
        for private in [accounts[winner].0, accounts[winner].1.as_str()] {
            assert!(!asked[1 - winner].text.contains(private), "{refused}");
        }
        // After a partial payment the rest must go to the same account.
        let calldata = asked[winner].expect(200);
        fiat.send_units(&calldata, 10_000_000, 4_000_000).await;
        let (user, account) = &accounts[1 - winner];
        fiat.ask(&id, user, account, "").await.expect(400);
        let (user, account) = &accounts[winner];
        let rest = fiat.ask(&id, user, account, "").await.expect(200);
        fiat.send(&rest).await;
        fiat.work().await;
        let order = ordered(&fiat).await.pop().expect("an order");
        let quotes = fiat.partner.calls().await;
        let of_user = quotes
            .iter()
            .filter(|call| call.target.ends_with("/quotes"))
            .find(|call| call.body["accountId"] == order["accountId"]);
        assert_eq!(of_user.expect("a quote").body["payerId"], order["payerId"]);
        assert_eq!(order["payerId"], json!(fiat.app.partner_id(accounts[winner].0).await));
        assert_eq!(order["amount"], "10");
    }
    println!("8 races, {first} of them won by the first");
    assert_eq!(ordered(&fiat).await.len(), 8);
    assert!(
        fiat.orders(true)
            .await
            .iter()
            .all(|one| one.order.state != OrderState::Asked)
    );
}

#[tokio::test]
async fn a_quote_whose_terms_change_returns_no_calldata() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0006").await;
    let id = fiat.request("10").await;
    let named = || ("id", Change::To(json!("qte_the_same")));
    fiat.partner.answer("quote", Some(Scripted::Changed(vec![named()])));
    let asked = join_all((0..8).map(|_| fiat.ask(&id, CLIENT_USER, &account, ""))).await;
    let calldata = asked[0].expect(200);
    assert!(asked.iter().all(|answer| answer.expect(200) == calldata));
    let address = deposit(&calldata);
    // The quote has expired. The partner then returns a quote with the same id: first with another address, then with
    // the same address and another expiry.
    fiat.pass(61).await;
    let known = ("depositAddress", Change::To(json!(address)));
    for changes in [vec![named()], vec![named(), known]] {
        fiat.partner.answer("quote", Some(Scripted::Changed(changes)));
        let answer = fiat.ask(&id, CLIENT_USER, &account, "").await;
        assert_eq!(answer.status, 502, "{}", answer.text);
        assert!(!answer.text.contains("transactions"), "{}", answer.text);
        fiat.pass(61).await;
    }
    // Another request cannot use it either.
    let other = fiat.request("20").await;
    fiat.partner.answer("quote", Some(Scripted::Changed(vec![named()])));
    let answer = fiat.ask(&other, CLIENT_USER, &account, "").await;
    assert_eq!(answer.status, 502, "{}", answer.text);
    fiat.partner.answer("quote", None);
    fiat.ask(&other, CLIENT_USER, &account, "").await.expect(200);
    let present = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    assert_ne!(deposit(&present), address);
    // The deposit address in issued calldata counts as used, however old the calldata is.
    fiat.send(&calldata).await;
    assert_eq!(fiat.status(&id).await, "processing");
}

#[tokio::test]
async fn a_deposit_address_is_issued_for_only_one_account() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "7890").await;
    let own_other = fiat.add_account(CLIENT_USER, "4444").await;
    let of_another = fiat.compliant(OTHER_USER, "7891").await;
    let first = fiat.request("10").await;
    let calldata = fiat.ask(&first, CLIENT_USER, &account, "").await.expect(200);
    says_the_same_address(&fiat, &deposit(&calldata));
    for (user, account) in [(CLIENT_USER, &own_other), (OTHER_USER, &of_another)] {
        let id = fiat.request("10").await;
        let answer = fiat.ask(&id, user, account, "").await;
        assert_eq!(answer.status, 502, "{user}: {}", answer.text);
    }
    // The same account may get the address again.
    let again = fiat.request("10").await;
    fiat.ask(&again, CLIENT_USER, &account, "").await.expect(200);
    // Of two concurrent callers, only one gets the address.
    says_the_same_address(&fiat, "0x00000000000000000000000000000000000055aa");
    let (one, two) = (fiat.request("10").await, fiat.request("10").await);
    let (one, two): (Answer, Answer) = tokio::join!(
        fiat.ask(&one, CLIENT_USER, &account, ""),
        fiat.ask(&two, OTHER_USER, &of_another, ""),
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 502]);
}

#[tokio::test]
async fn payments_to_a_shared_deposit_address_reach_their_own_accounts() {
    const SHARED: &str = "0x00000000000000000000000000000000000055aa";
    let fiat = Fiat::with(|settings| {
        let listed = [("sepolia".to_owned(), vec![SHARED.to_owned()])];
        settings.offramp.deposit_addresses = listed.into();
    })
    .await;
    let accounts = [
        (CLIENT_USER, fiat.compliant(CLIENT_USER, "7890").await),
        (OTHER_USER, fiat.compliant(OTHER_USER, "7891").await),
    ];
    says_the_same_address(&fiat, SHARED);
    let mut handed = Vec::new();
    for (user, account) in &accounts {
        let id = fiat.request("10").await;
        handed.push((fiat.ask(&id, user, account, "").await.expect(200), id, *user));
    }
    // The first request is paid after the second got its quote. The newest quote for the shared address therefore
    // belongs to the second request.
    for (calldata, id, user) in &handed {
        assert_eq!(deposit(calldata), SHARED);
        fiat.send(calldata).await;
        assert_eq!(fiat.status(id).await, "processing");
        fiat.work().await;
        let order = ordered(&fiat).await.pop().expect("an order");
        assert_eq!(order["payerId"], json!(fiat.app.partner_id(user).await));
    }
}
