# Is the body in the file $1 ours? $2: x-service-signature, $3: x-service-signature-next, if it came.
is_genuine() {
  expected=$(openssl dgst -sha256 -hmac "$PRS_WEBHOOK_SECRET" < "$1" | sed 's/.*= //')
  for signature in $2 $3; do
    if [ "$signature" = "$expected" ]; then return 0; fi
  done
  return 1
}
