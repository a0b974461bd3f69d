// Package secret seals the secret values of metadata, so that the ledger, the views and every answer hold them without
// showing them. The registry seals what operators set; the task-dispatcher opens it for a server's document.
//
// Guarantees:
//
//  1. A sealed value shows its own value only to the holder of the key. It shows its length in steps of 64 bytes.
//  2. The same value under the same name is sealed to the same text, so that a repeated request changes nothing, and a
//     reader sees whether a value has changed.
//  3. A value that was sealed under one name does not open under another one.
//  4. What IsSealed accepts is not necessarily authentic; what Open accepts is.
package secret

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	// prefix marks a sealed value. No value in clear begins with it; package metadata sees to that.
	prefix = "garrison:sealed:1:"

	keyBytes   = 32
	nonceBytes = 12
	padTo      = 64
	lenBytes   = 4
)

// Key seals and opens values. It is safe for concurrent use.
type Key struct {
	mac  []byte // makes the nonce
	aead cipher.AEAD
}

// NewKeyText returns a new key as text, for ParseKey.
func NewKeyText() string {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the process instead
	return base64.StdEncoding.EncodeToString(key)
}

// ParseKey reads a key. An error is Invalid and does not hold the text.
func ParseKey(text string) (*Key, error) {
	master, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(master) != keyBytes {
		return nil, fault.New(fault.Invalid, "the key of secrets is not %d bytes in base64", keyBytes)
	}
	mac, err := hkdf.Key(sha256.New, master, nil, "garrison secret nonce", keyBytes)
	if err != nil {
		return nil, err
	}
	enc, err := hkdf.Key(sha256.New, master, nil, "garrison secret value", keyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(enc)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &Key{mac, aead}, err
}

// Seal returns the sealed form of a value.
func (k *Key) Seal(name, value string) string {
	plain := make([]byte, (lenBytes+len(value)+padTo-1)/padTo*padTo)
	binary.BigEndian.PutUint32(plain, uint32(len(value)))
	copy(plain[lenBytes:], value)
	h := hmac.New(sha256.New, k.mac)
	fmt.Fprintf(h, "%d %s", len(name), name)
	h.Write(plain)
	nonce := h.Sum(nil)[:nonceBytes]
	return prefix + base64.RawURLEncoding.EncodeToString(k.aead.Seal(nonce, nonce, plain, []byte(name)))
}

// Open returns the value of its sealed form. An error is Denied: it was not sealed with this key under this name.
func (k *Key) Open(name, sealed string) (string, error) {
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(sealed, prefix))
	if err != nil || !IsSealed(sealed) || len(data) < nonceBytes {
		return "", fault.New(fault.Denied, "%q is not a sealed value", name)
	}
	plain, err := k.aead.Open(nil, data[:nonceBytes], data[nonceBytes:], []byte(name))
	if err != nil || len(plain) < lenBytes {
		return "", fault.New(fault.Denied, "%q was not sealed under this name by this Garrison", name)
	}
	n := binary.BigEndian.Uint32(plain)
	if int(n) > len(plain)-lenBytes {
		return "", fault.New(fault.Denied, "%q is not a sealed value", name)
	}
	return string(plain[lenBytes : lenBytes+int(n)]), nil
}

// IsSealed reports whether a value has the form of a sealed one.
func IsSealed(value string) bool { return strings.HasPrefix(value, prefix) }

// SealedBytes returns how long the sealed form of a value of n bytes is.
func SealedBytes(n int) int {
	return len(prefix) + base64.RawURLEncoding.EncodedLen(nonceBytes+(lenBytes+n+padTo-1)/padTo*padTo+16)
}

// Text returns what a person sees of a value: for a sealed one that it is a secret, and twelve digits that change with
// it; any other as it is.
func Text(value string) string {
	if !IsSealed(value) {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "<secret, " + hex.EncodeToString(sum[:])[:12] + ">"
}

// leastScrubbed is the shortest value that Scrub replaces; a shorter one is part of too many other words.
const leastScrubbed = 4

// Cover writes asterisks over values in a text, such as a part of the output of a program, whose length stays.
func Cover(text []byte, values map[string]string) {
	for _, value := range values {
		if len(value) < leastScrubbed {
			continue
		}
		for at, next := 0, 0; next >= 0; at += next + len(value) {
			if next = bytes.Index(text[at:], []byte(value)); next < 0 {
				break
			}
			copy(text[at+next:], strings.Repeat("*", len(value)))
		}
	}
}

// Scrub replaces values in a text, such as the output of a program that printed them.
func Scrub(text string, values map[string]string) string {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int { // a value may be part of a longer one
		return cmp.Or(cmp.Compare(len(values[b]), len(values[a])), cmp.Compare(a, b))
	})
	for _, name := range names {
		if value := values[name]; len(value) >= leastScrubbed {
			text = strings.ReplaceAll(text, value, "<secret "+name+">")
		}
	}
	return text
}
