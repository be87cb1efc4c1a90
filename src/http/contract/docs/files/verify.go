package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// IsGenuine takes the raw bytes, x-service-signature, and x-service-signature-next or "".
func IsGenuine(secret string, body []byte, header, next string) bool {
	if secret == "" {
		return false // Anyone can sign with an empty secret.
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
