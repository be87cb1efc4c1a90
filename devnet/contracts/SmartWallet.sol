// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.28;

/// @title An account contract with one owner: it sends the payments, although the owner sends the transaction.
contract SmartWallet {
    // The two return values of ERC-1271.
    bytes4 private constant VALID_SIGNATURE = 0x1626ba7e;
    bytes4 private constant INVALID_SIGNATURE = 0xffffffff;
    // Half the order of secp256k1: a signature above it is the malleable twin of another one.
    uint256 private constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    address public immutable owner;

    error NotOwner(address caller);

    constructor(address owner_) payable {
        owner = owner_;
    }

    receive() external payable {}

    function execute(address to, uint256 value, bytes calldata data) external payable returns (bytes memory) {
        if (msg.sender != owner) revert NotOwner(msg.sender);
        (bool success, bytes memory result) = to.call{value: value}(data);
        if (!success) {
            assembly ("memory-safe") {
                revert(add(result, 32), mload(result))
            }
        }
        return result;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 65) return INVALID_SIGNATURE;
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        if (uint256(s) > HALF_ORDER) return INVALID_SIGNATURE;
        address signer = ecrecover(hash, uint8(signature[64]), r, s);
        return signer != address(0) && signer == owner ? VALID_SIGNATURE : INVALID_SIGNATURE;
    }
}
