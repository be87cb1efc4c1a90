package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// IsGenuine takes the bytes as they came, x-service-signature, and x-service-signature-next or "".
func IsGenuine(secret string, body []byte, header, next string) bool {
	if secret == "" {
		return false // Anybody can sign with an empty one.
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	expected := []byte(hex.EncodeToString(mac.Sum(nil)))
	for _, signature := range strings.Fields(header + " " + next) {
		if hmac.Equal([]byte(signature), expected) {
			return true
		}
	}
	return false
}
