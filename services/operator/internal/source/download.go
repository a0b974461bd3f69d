package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// download fetches the file of an image into a directory, and returns its path. A file that is there in part is
// continued. The file that it returns has the size and the digest of the index, and holds the image that the index
// names; of any other it leaves nothing.
func download(ctx context.Context, at place, l listed, dir string, report func(done uint64)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin(l.GetSizeBytes()))
	defer cancel()
	path := filepath.Join(dir, hex.EncodeToString(l.GetFileDigest())+image.Extension)
	if err := fetch(ctx, at, l, path, report); err != nil {
		if fault.Is(err, fault.Invalid) { // nothing of it is good
			_ = os.Remove(path)
		}
		return "", err
	}
	if err := checkFile(l, path); err != nil {
		_ = os.Remove(path)
		return "", err
	}
	return path, nil
}

// fetchWithin returns how long a file of some size may take: a source that sends a byte now and then is not waited for.
// The next sync continues.
func fetchWithin(size uint64) time.Duration {
	return time.Minute + time.Duration(size/leastRate)*time.Second
}

// fetch completes the file at path.
func fetch(ctx context.Context, at place, l listed, path string, report func(done uint64)) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil || uint64(have) == l.GetSizeBytes() {
		return err
	}
	if uint64(have) > l.GetSizeBytes() {
		have = 0
	}
	body, from, err := at.open(ctx, fileName(l), have)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if err := f.Truncate(from); err != nil {
		return err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	return copyTo(f, body, l, uint64(from), report)
}

// copyTo copies what a file lacks and refuses more or less. What it wrote stays, for the next try.
func copyTo(f *os.File, body io.Reader, l listed, done uint64, report func(done uint64)) error {
	name, size := l.GetAgent()+"@"+l.GetVersion(), l.GetSizeBytes()
	var ended error // of the body
	counted := readerFunc(func(b []byte) (n int, err error) {
		n, err = body.Read(b)
		done += uint64(n)
		report(min(done, size))
		ended = err
		return n, err
	})
	_, err := io.Copy(f, io.LimitReader(counted, int64(size-done)+1))
	switch {
	case err != nil && !errors.Is(err, ended): // of the file
		return err
	case done > size:
		return fault.Refusef(fault.Invalid, code.TooLarge, "the file of %s has more than the %d bytes of the index",
			name, size)
	case done < size:
		cause := ""
		if err != nil {
			cause = ": " + err.Error()
		}
		return fault.Refusef(fault.Unavailable, code.NotAnImage, "the file of %s ends after %d of %d bytes%s", name,
			done, size, cause).Try("the same again, which continues")
	}
	return nil
}

type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (r readerFunc) Read(b []byte) (int, error) { return r(b) }

// checkFile refuses a file that is not the one of the index, or not of the image that the index names.
func checkFile(l listed, path string) error {
	name := l.GetAgent() + "@" + l.GetVersion()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	have, err := digestOf(file)
	if err != nil {
		return err
	}
	if err := checkDigest(l, have); err != nil {
		return err
	}
	f, err := image.From(file)
	if err != nil {
		return err
	}
	m := f.Manifest()
	if m.GetId() != l.GetImageId() || m.GetAgent() != l.GetAgent() || m.GetVersion() != l.GetVersion() {
		return fault.Refusef(fault.Invalid, code.WrongID, "the file of %s holds image %s of %s@%s", name, m.GetId(),
			m.GetAgent(), m.GetVersion())
	}
	if m.GetKind() == agentv1.Kind_KIND_SELF {
		return fault.Refusef(fault.Invalid, code.UnsupportedKind,
			"%s is a program of Garrison itself, which no source may bring", name).Try("garrison image import FILE")
	}
	return nil
}

// checkDigest refuses a file with another digest than the index says.
func checkDigest(l listed, have []byte) error {
	if bytes.Equal(have, l.GetFileDigest()) {
		return nil
	}
	return fault.Refusef(fault.Invalid, code.WrongDigest, "the file of %s has digest %.12x, the index says %.12x",
		l.GetAgent()+"@"+l.GetVersion(), have, l.GetFileDigest())
}

// digestOf returns the sha256 of a file, which it reads from where it stands.
func digestOf(f io.Reader) ([]byte, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}
