//! Price feeds on the local chain with prices set by tests.

use super::TestApp;
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use serde_json::json;

alloy::sol! {
    function decimals() external view returns (uint256);
    function latestAnswer() external view returns (uint256);
    function latestTimestamp() external view returns (uint256);
}

/// Bytecode of a contract that returns a fixed number for each listed function selector, and reverts for any other.
fn answering(answers: &[([u8; 4], U256)]) -> Vec<u8> {
    const QUESTION_BYTES: usize = 10;
    const ANSWER_BYTES: usize = 42;
    // The selector of the call.
    let mut code = vec![0x60, 0x00, 0x35, 0x60, 0xe0, 0x1c];
    let first = code.len() + answers.len() * QUESTION_BYTES + 5;
    for (position, (selector, _)) in answers.iter().enumerate() {
        let to = u8::try_from(first + position * ANSWER_BYTES).expect("a short contract");
        code.extend([0x80, 0x63]);
        code.extend(selector);
        code.extend([0x14, 0x60, to, 0x57]);
    }
    code.extend([0x60, 0x00, 0x60, 0x00, 0xfd]);
    for (_, answer) in answers {
        code.extend([0x5b, 0x7f]);
        code.extend(answer.to_be_bytes::<32>());
        code.extend([0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3]);
    }
    code
}

/// Places a contract at an address. The contract returns a fixed number for each listed function selector.
pub async fn deploy(app: &TestApp, at: Address, answers: &[([u8; 4], U256)]) {
    let code = hex::encode_prefixed(answering(answers));
    app.devnet().rpc("anvil_setCode", json!([at, code])).await.expect("set");
}

/// Sets the price that a feed contract returns, and the chain time since which this price holds.
pub async fn deploy_feed(app: &TestApp, at: Address, decimals: u64, price: U256, time: U256) {
    let answers = [
        (decimalsCall::SELECTOR, U256::from(decimals)),
        (latestAnswerCall::SELECTOR, price),
        (latestTimestampCall::SELECTOR, time),
    ];
    deploy(app, at, &answers).await;
}
