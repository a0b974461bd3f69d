package webhook

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
)

// The prefixes of keys, as Standard Webhooks writes them.
const (
	secretPrefix = "whsk_"
	publicPrefix = "whpk_"
)

// mostKeys is how many keys sign each delivery: the present one and the one before.
const mostKeys = 2

// keyFile is the file with the private keys, one a line, the present one first.
func keyFile(dir string) string { return filepath.Join(dir, "signing.keys") }

// readKeys reads the keys, and creates the first one.
func readKeys(dir string) ([]ed25519.PrivateKey, error) {
	data, err := strictdir.ReadSecret(keyFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return rotateKeys(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of webhooks: %w", err)
	}
	var keys []ed25519.PrivateKey
	for line := range bytes.Lines(data) {
		text, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte(secretPrefix))
		key, err := base64.StdEncoding.DecodeString(string(text))
		if !ok || err != nil || len(key) != ed25519.PrivateKeySize {
			return nil, fault.New(fault.Invalid, "%s is damaged; a backup has it", keyFile(dir))
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fault.New(fault.Invalid, "%s is empty; a backup has it", keyFile(dir))
	}
	return keys, nil
}

// rotateKeys adds a key, and drops those before the last one.
func rotateKeys(dir string) ([]ed25519.PrivateKey, error) {
	var keys []ed25519.PrivateKey
	if strictdir.File(keyFile(dir)) == nil {
		var err error
		if keys, err = readKeys(dir); err != nil {
			return nil, err
		}
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	keys = append([]ed25519.PrivateKey{key}, keys[:min(len(keys), mostKeys-1)]...)
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(secretPrefix + base64.StdEncoding.EncodeToString(k) + "\n")
	}
	if err := strictdir.Make(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of webhooks: %w", err)
	}
	if err := renameio.WriteFile(keyFile(dir), []byte(b.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write the keys of webhooks: %w", err)
	}
	return keys, nil
}

// publicKey returns the public half of a key as receivers configure it.
func publicKey(k ed25519.PrivateKey) string {
	public, _ := k.Public().(ed25519.PublicKey)
	return publicPrefix + base64.StdEncoding.EncodeToString(public)
}

// sign adds the headers of Standard Webhooks to a request.
func sign(h http.Header, keys []ed25519.PrivateKey, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	signed := append([]byte(id+"."+stamp+"."), body...)
	var all []string
	for _, k := range keys {
		all = append(all, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(k, signed)))
	}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", stamp)
	h.Set("webhook-signature", strings.Join(all, " "))
}
