// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.28;

/// @title Asks a contract wallet whether a signature is its own. It is never deployed: the constructor returns the
/// result, and a call without a recipient runs it and reverts all its effects.
contract SignatureCheck {
    // Suffix of a signature of a wallet that may not be deployed yet (ERC-6492).
    bytes32 private constant WRAPPED = 0x6492649264926492649264926492649264926492649264926492649264926492;
    // The return value of a wallet that accepts a signature (ERC-1271), as a word.
    bytes32 private constant ACCEPTED = bytes32(bytes4(0x1626ba7e));

    // The results of this contract.
    uint256 private constant NO_CODE = 0;
    uint256 private constant VALID = 1;
    uint256 private constant INVALID = 2;

    constructor(address wallet, bytes32 digest, bytes memory signature) {
        uint256 answer = check(wallet, digest, signature);
        assembly ("memory-safe") {
            mstore(0, answer)
            return(0, 32)
        }
    }

    function check(address wallet, bytes32 digest, bytes memory signature) private returns (uint256) {
        if (!isWrapped(signature)) return ask(wallet, digest, signature);
        assembly ("memory-safe") {
            mstore(signature, sub(mload(signature), 32))
        }
        (address factory, bytes memory creation, bytes memory inner) =
            abi.decode(signature, (address, bytes, bytes));
        // A deployed wallet is checked unchanged: a caller who signs in must not be able to change it first.
        if (wallet.code.length == 0) {
            (bool success,) = factory.call(creation);
            if (!success) return NO_CODE;
        }
        return ask(wallet, digest, inner);
    }

    function isWrapped(bytes memory signature) private pure returns (bool) {
        if (signature.length < 32) return false;
        bytes32 end;
        assembly ("memory-safe") {
            end := mload(add(signature, mload(signature)))
        }
        return end == WRAPPED;
    }

    function ask(address wallet, bytes32 digest, bytes memory signature) private view returns (uint256) {
        if (wallet.code.length == 0) return NO_CODE;
        (bool success, bytes memory answer) =
            wallet.staticcall(abi.encodeWithSelector(bytes4(ACCEPTED), digest, signature));
        if (!success || answer.length != 32) return INVALID;
        return bytes32(answer) == ACCEPTED ? VALID : INVALID;
    }
}
