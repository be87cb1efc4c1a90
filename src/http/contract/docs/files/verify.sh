# Is the body in the file $1 ours? $2: x-service-signature, $3: x-service-signature-next, if it came.
# For a look by hand: whoever lists the processes of this machine meanwhile reads the secret.
is_genuine() {
  [ -n "$PRS_WEBHOOK_SECRET" ] || return 1 # Anybody can sign with an empty one.
  expected=$(openssl dgst -sha256 -hmac "$PRS_WEBHOOK_SECRET" < "$1" | sed 's/.*= //')
  for signature in $2 $3; do
    if [ "$signature" = "$expected" ]; then return 0; fi
  done
  return 1
}
