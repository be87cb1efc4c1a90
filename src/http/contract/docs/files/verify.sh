# Verifies the body in the file $1. $2: x-service-signature, $3: x-service-signature-next, if present.
# For manual use only: the process list of this machine shows the secret while this runs.
is_genuine() {
  [ -n "$PRS_WEBHOOK_SECRET" ] || return 1 # Anyone can sign with an empty secret.
  expected=$(openssl dgst -sha256 -hmac "$PRS_WEBHOOK_SECRET" < "$1" | sed 's/.*= //')
  for signature in $2 $3; do
    if [ "$signature" = "$expected" ]; then return 0; fi
  done
  return 1
}
