//! Who may open an account: any user, only invited users, or no user.

use crate::{
    sessions::{Person, answered, challenge, count},
    support::{Answer, TestApp, program::prs, secrets::dump_files},
};
use prs::{
    domain::{network::Family, registration::Invitee, session::normal_email},
    flows::auth::{invite, sweep},
    settings::{RegistrationSetting, Settings},
};
use serde_json::{Value, json};

async fn app(registration: RegistrationSetting) -> TestApp {
    let mut settings = crate::support::app::settings();
    settings.accounts.registration = registration;
    TestApp::with(settings, None).await
}

async fn register(app: &TestApp, email: &str, invite: Option<&str>) -> Answer {
    let mut body = json!({ "email": email, "password": "correct horse" });
    invite.into_iter().for_each(|invite| body["invite"] = invite.into());
    app.post("/v1/auth/register").json(&body).send().await
}

async fn sign_in(app: &TestApp, person: &Person, invite: Option<&str>) -> Answer {
    let asked = challenge(app, &person.address().to_string()).await;
    let mut body = answered(&asked, &person.sign(asked["message"].as_str().expect("text")));
    invite.into_iter().for_each(|invite| body["invite"] = invite.into());
    app.post("/v1/auth/wallet/verify").json(&body).send().await
}

async fn invited(app: &TestApp, invitee: Invitee) -> String {
    let new = invite::create(&app.ctx, &invitee).await.expect("an invite");
    new.code.expect("a code").reveal().to_owned()
}

fn refused(answer: &Answer, sentence: &str) {
    let body = answer.expect(403);
    assert_eq!(
        (&body["message"], &body["error"]),
        (&json!(sentence), &json!("Forbidden"))
    );
    assert_eq!(answer.header("set-cookie"), None);
}

const UNINVITED: &str = "Registration requires an invite from the operator; send it as invite";
const UNFIT: &str = "The invite is unknown, used, expired or for another person; ask the operator for a new one";
const CLOSED: &str = "Registration is closed; contact the operator of this service";

#[tokio::test]
async fn accounts_need_an_invite_unless_configured_otherwise() {
    let app = app(Settings::default().accounts.registration).await;
    let ada = Person::new(1, Family::Evm);
    refused(&register(&app, "ada@example.com", None).await, UNINVITED);
    refused(&sign_in(&app, &ada, None).await, UNINVITED);
    let unknown = format!("inv_{}", "0".repeat(43));
    refused(&register(&app, "ada@example.com", Some(&unknown)).await, UNFIT);
    refused(&sign_in(&app, &ada, Some(&unknown)).await, UNFIT);
    let malformed = register(&app, "ada@example.com", Some("inv_")).await;
    malformed.expect(400);
    assert_eq!(malformed.wrong_fields(), ["invite"]);
    let code = invited(&app, Invitee::Anybody).await;
    register(&app, "ada@example.com", Some(&code)).await.expect(201);
    let code = invited(&app, Invitee::Anybody).await;
    sign_in(&app, &ada, Some(&code)).await.expect(200);
    // A user with an account no longer needs an invite.
    sign_in(&app, &ada, None).await.expect(200);
    let body = json!({ "email": "ada@example.com", "password": "correct horse" });
    app.post("/v1/auth/login").json(&body).send().await.expect(200);
}

#[tokio::test]
async fn with_registration_off_only_existing_accounts_sign_in() {
    let app = app(RegistrationSetting::Open).await;
    let (ada, bob) = (Person::new(1, Family::Evm), Person::new(2, Family::Tron));
    register(&app, "ada@example.com", None).await.expect(201);
    sign_in(&app, &ada, None).await.expect(200);
    let code = invited(&app, Invitee::Anybody).await;
    let app = app
        .restarted_with(|settings| settings.accounts.registration = RegistrationSetting::Off)
        .await;
    refused(&register(&app, "bob@example.com", Some(&code)).await, CLOSED);
    refused(&register(&app, "ada@example.com", None).await, CLOSED);
    refused(&sign_in(&app, &bob, Some(&code)).await, CLOSED);
    sign_in(&app, &ada, None).await.expect(200);
    let body = json!({ "email": "ada@example.com", "password": "correct horse" });
    app.post("/v1/auth/login").json(&body).send().await.expect(200);
}

#[tokio::test]
async fn concurrent_uses_of_an_invite_open_one_account() {
    let app = app(RegistrationSetting::Invited).await;
    let code = invited(&app, Invitee::Anybody).await;
    let emails: Vec<String> = (0..6).map(|number| format!("guest{number}@example.com")).collect();
    let people: Vec<Person> = (1..5).map(|seed| Person::new(seed, Family::Evm)).collect();
    let (registered, signed_in) = tokio::join!(
        futures_util::future::join_all(emails.iter().map(|email| register(&app, email, Some(&code)))),
        futures_util::future::join_all(people.iter().map(|person| sign_in(&app, person, Some(&code)))),
    );
    let answers: Vec<Answer> = registered.into_iter().chain(signed_in).collect();
    let opened = answers
        .iter()
        .filter(|answer| matches!(answer.status, 200 | 201))
        .count();
    assert_eq!(opened, 1);
    for answer in answers.iter().filter(|answer| !matches!(answer.status, 200 | 201)) {
        refused(answer, UNFIT);
    }
}

#[tokio::test]
async fn an_invite_for_one_person_works_for_no_other() {
    let app = app(RegistrationSetting::Invited).await;
    let (ada, eve) = (Person::new(1, Family::Evm), Person::new(2, Family::Evm));
    let for_email = invited(&app, Invitee::Email(normal_email("Ada@Example.com"))).await;
    refused(&register(&app, "eve@example.com", Some(&for_email)).await, UNFIT);
    refused(&sign_in(&app, &eve, Some(&for_email)).await, UNFIT);
    register(&app, "ADA@example.com", Some(&for_email)).await.expect(201);
    // A wallet proves with its signature that it is the invited one.
    let for_wallet = invite::create(&app.ctx, &Invitee::Wallet(ada.address()))
        .await
        .expect("an invite");
    assert!(for_wallet.code.is_none());
    refused(&sign_in(&app, &eve, None).await, UNINVITED);
    refused(&sign_in(&app, &Person::new(1, Family::Tron), None).await, UNINVITED);
    sign_in(&app, &ada, None).await.expect(200);
}

#[test]
fn the_operator_creates_invites_whose_codes_are_not_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let prs = |arguments: &[&str]| prs(folder.path()).args(arguments).output().expect("the program starts");
    let create = |arguments: &[&str]| {
        let output = prs(&[&["admin", "invite", "create", "--json"], arguments].concat());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let is_made = output.status.success();
        is_made.then(|| serde_json::from_str::<Value>(&text).expect("a line of JSON"))
    };
    assert!(prs(&["migrate", "up"]).status.success());
    let wallet = Person::new(1, Family::Evm).address().to_string();
    let for_anybody = create(&[]).expect("made");
    let for_email = create(&["--email", "Ada@Example.com"]).expect("made");
    let for_wallet = create(&["--wallet", &wallet]).expect("made");
    for (made, email, invited) in [
        (&for_anybody, Value::Null, Value::Null),
        (&for_email, "ada@example.com".into(), Value::Null),
        (&for_wallet, Value::Null, wallet.as_str().into()),
    ] {
        assert_eq!((&made["email"], &made["wallet"]), (&email, &invited));
        let expires_at = made["expiresAt"].as_str().expect("a time");
        assert!(
            expires_at.len() == "2030-01-31T12:00:00.000Z".len() && expires_at.ends_with('Z'),
            "{made}"
        );
        assert!(made["id"].is_string(), "{made}");
    }
    let stored = dump_files(folder.path());
    for made in [&for_anybody, &for_email] {
        let code = made["invite"].as_str().expect("a code");
        assert!(code.starts_with("inv_") && code.len() == 47, "{code}");
        assert!(!String::from_utf8_lossy(&stored).contains(&code[4..]));
    }
    assert_eq!(for_wallet["invite"], Value::Null);
    assert!(create(&["--email", "ada"]).is_none());
    assert!(create(&["--wallet", "0x12"]).is_none());
    assert!(create(&["--email", "ada@example.com", "--wallet", &wallet]).is_none());
    let off = crate::support::program::prs(folder.path())
        .args(["admin", "invite", "create"])
        .env("PRS_ACCOUNTS__REGISTRATION", "off")
        .output()
        .expect("the program starts");
    let sentence = String::from_utf8_lossy(&off.stderr).into_owned();
    assert!(
        !off.status.success() && sentence.contains("set it to invited"),
        "{sentence}"
    );
}

#[tokio::test]
async fn an_invite_is_valid_for_a_week_and_survives_a_refusal() {
    let app = app(RegistrationSetting::Invited).await;
    let first = invited(&app, Invitee::Anybody).await;
    let late = invited(&app, Invitee::Anybody).await;
    register(&app, "ada@example.com", Some(&first)).await.expect(201);
    let week_ms = 7 * 86_400_000;
    app.advance_ms(week_ms - 1);
    // The address has an account, so it is refused; the invite then opens another account.
    register(&app, "ada@example.com", Some(&late)).await.expect(409);
    let eve = Person::new(2, Family::Evm);
    let asked = challenge(&app, &eve.address().to_string()).await;
    let mut wrong = answered(
        &asked,
        &Person::new(3, Family::Evm).sign(asked["message"].as_str().expect("text")),
    );
    wrong["invite"] = late.as_str().into();
    app.post("/v1/auth/wallet/verify").json(&wrong).send().await.expect(401);
    register(&app, "bob@example.com", Some(&late)).await.expect(201);
    let never = invited(&app, Invitee::Anybody).await;
    app.advance_ms(week_ms);
    refused(&register(&app, "eve@example.com", Some(&never)).await, UNFIT);
    assert!(!sweep::run(&app.ctx).await.expect("swept"));
    assert_eq!(count(&app, "invites").await, 0);
}
