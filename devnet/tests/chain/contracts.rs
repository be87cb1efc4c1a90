//! The interfaces that the tests call, and the topics that they expect.

use alloy::{
    primitives::{Address, B256, Bytes, b256, bytes},
    rpc::types::{Filter, Log},
    sol,
};
use devnet::{Devnet, TxReceiptLite};

/// `TransferWithReferenceAndFee` of the token proxies.
pub(crate) const ERC20_PAYMENT: B256 = b256!("9f16cbcc523c67a60c450e5ffe4f3b7b6dbe772e7abcadb2686ce029a9a0a2b6");
/// `TransferWithReferenceAndFee` of the native proxies.
pub(crate) const NATIVE_PAYMENT: B256 = b256!("a1c241e337c4610a9d0f881111e977e9dc8690c85fe2108897bb1483c66e6a96");
/// `TransferWithConversionAndReference` of both conversion proxies.
pub(crate) const CONVERSION: B256 = b256!("96d0d1d75923f40b50f6fe74613b2c23239149607848fbca3941fee7ac041cdc");

pub(crate) const REFERENCE: Bytes = bytes!("0102030405060708");

sol! {
    interface Erc20FeeProxy {
        function transferFromWithReferenceAndFee(
            address token, address to, uint256 amount, bytes reference, uint256 fee, address feeAddress
        ) external;
    }

    interface NativeFeeProxy {
        function transferWithReferenceAndFee(
            address to, bytes reference, uint256 fee, address feeAddress
        ) external payable;
    }

    interface Erc20Conversion {
        function transferFromWithReferenceAndFee(
            address to, uint256 requestAmount, address[] path, bytes reference, uint256 fee, address feeAddress,
            uint256 maxToSpend, uint256 maxRateTimespan
        ) external;
    }

    interface NativeConversion {
        function transferWithReferenceAndFee(
            address to, uint256 requestAmount, address[] path, bytes reference, uint256 fee, address feeAddress,
            uint256 maxRateTimespan
        ) external payable;
    }

    struct RequestDetail {
        address recipient;
        uint256 requestAmount;
        address[] path;
        bytes reference;
        uint256 feeAmount;
        uint256 maxToSpend;
        uint256 maxRateTimespan;
    }

    struct MetaDetail {
        uint256 paymentNetworkId;
        RequestDetail[] requestDetails;
    }

    interface ConversionBatch {
        function batchPayments(MetaDetail[] details, address[][] pathsToUsd, address feeAddress) external payable;
        function batchFee() external view returns (uint16);
    }

    interface SwapToPay {
        function swapTransferWithReference(
            address paymentProxy, address to, uint256 amount, uint256 amountInMax, address[] path, bytes reference,
            uint256 fee, address feeAddress, uint256 deadline
        ) external;
    }

    interface SmartWallet {
        function execute(address to, uint256 value, bytes call) external payable returns (bytes memory);
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }

    interface Erc20 {
        function name() external view returns (string memory);
        function symbol() external view returns (string memory);
        function decimals() external view returns (uint256);
        function approve(address spender, uint256 amount) external;
    }
}

/// The logs of one contract in the block that contains a transaction.
pub(crate) async fn logs_of(chain: &Devnet, receipt: &TxReceiptLite, emitter: Address) -> Vec<Log> {
    chain
        .logs(&Filter::new().at_block_hash(receipt.block_hash).address(emitter))
        .await
        .unwrap()
}

pub(crate) fn topics(logs: &[Log]) -> Vec<B256> {
    logs.iter().map(|log| *log.topic0().unwrap()).collect()
}
