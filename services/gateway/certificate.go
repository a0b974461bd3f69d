package gateway

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// Certificate returns the configuration of a listener with the certificate in two files, which it follows without a
// restart. The old certificate stays in use while the new one cannot be read.
func Certificate(cert, key string) (*tls.Config, error) {
	f := &files{cert: cert, key: key}
	if _, err := f.current(); err != nil {
		return nil, fmt.Errorf("read the certificate for HTTP: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current() },
	}, nil
}

// files is a certificate in two files.
type files struct {
	cert, key string

	mu      sync.Mutex
	pair    *tls.Certificate
	changed [2]time.Time // of the files, when pair was read
}

// current returns the certificate, read again when a file changed.
func (f *files) current() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := [2]time.Time{changedAt(f.cert), changedAt(f.key)}
	if f.pair != nil && changed == f.changed {
		return f.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		if f.pair != nil {
			return f.pair, nil
		}
		return nil, err
	}
	f.pair, f.changed = &pair, changed
	return f.pair, nil
}

// changedAt returns when a file changed; zero when that cannot be read.
func changedAt(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
