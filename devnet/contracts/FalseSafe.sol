// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.28;

/// @title A forgery: its storage, version and events look like those of a Safe, but it executes nothing.
/// @notice Any caller chooses the hash of an event, so a careful reader must reject the event.
contract FalseSafe {
    bytes32 private constant SUCCESS = keccak256("ExecutionSuccess(bytes32,uint256)");
    bytes32 private constant FAILURE = keccak256("ExecutionFailure(bytes32,uint256)");

    // Slot 0: the proxy of a real Safe has the address of its singleton here.
    address private singleton;
    string public VERSION;

    constructor(address singleton_, string memory version) {
        singleton = singleton_;
        VERSION = version;
    }

    receive() external payable {}

    /// Emits ExecutionSuccess as Safe 1.4.1 and 1.5.0 do: the hash is a topic.
    function emitSuccess(bytes32 hash) external {
        emitIndexed(SUCCESS, hash);
    }

    /// Emits ExecutionSuccess as Safe 1.3.0 does: the hash is in the data.
    function emitUnindexedSuccess(bytes32 hash) external {
        emitUnindexed(SUCCESS, hash);
    }

    /// Emits ExecutionFailure as Safe 1.4.1 and 1.5.0 do.
    function emitFailure(bytes32 hash) external {
        emitIndexed(FAILURE, hash);
    }

    /// Emits ExecutionFailure as Safe 1.3.0 does.
    function emitUnindexedFailure(bytes32 hash) external {
        emitUnindexed(FAILURE, hash);
    }

    // Solidity refuses two declarations of an event that differ only in the indexed parameters, so this function and
    // the next one write the logs directly. Each event has a payment of zero.
    function emitIndexed(bytes32 topic, bytes32 hash) private {
        assembly ("memory-safe") {
            mstore(0, 0)
            log2(0, 32, topic, hash)
        }
    }

    function emitUnindexed(bytes32 topic, bytes32 hash) private {
        assembly ("memory-safe") {
            mstore(0, hash)
            mstore(32, 0)
            log1(0, 64, topic)
        }
    }
}
