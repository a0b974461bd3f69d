package boltfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/garrison-fleet/garrison/services/executor/internal/boltfile"
)

// made returns the bytes of a file with many pages, some of which are free or overflow.
func made(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 6 {
		err = db.Update(func(tx *bbolt.Tx) error {
			for b := range 4 {
				bucket, err := tx.CreateBucketIfNotExists(fmt.Appendf(nil, "bucket %d", b))
				if err != nil {
					return err
				}
				for n := range 10 + 40*b {
					value := bytes.Repeat([]byte{byte(n)}, 10+n+round)
					if n%50 == 7 {
						value = bytes.Repeat(value, 60)
					}
					if err := bucket.Put(fmt.Appendf(nil, "key %d of %d", n, round%2), value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func check(data []byte) error { return boltfile.Check(bytes.NewReader(data), int64(len(data))) }

func TestWhatBboltWroteIsSound(t *testing.T) {
	if err := check(made(t)); err != nil {
		t.Error(err)
	}
}

func TestAFileThatWasCutIsDamaged(t *testing.T) {
	data := made(t)
	for _, size := range []int{1, 100, 4096, 8192, len(data) / 2} {
		if err := check(data[:size]); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("cut at %d: %v", size, err)
		}
	}
}

// A meta page may be half written by a commit that was cut off: the other one counts.
func TestOneMetaPageIsEnough(t *testing.T) {
	for page := range 2 {
		data := made(t)
		data[page*os.Getpagesize()+40] ^= 1
		if err := check(data); err != nil {
			t.Errorf("without page %d: %v", page, err)
		}
	}
}

func TestPagesOfZerosAreDamage(t *testing.T) {
	data := made(t)
	found := 0
	for at := 2 * os.Getpagesize(); at < len(data); at += os.Getpagesize() {
		bad := bytes.Clone(data)
		clear(bad[at : at+os.Getpagesize()])
		if check(bad) != nil {
			found++
		}
	}
	if found < 10 {
		t.Errorf("%d pages of zeros were noticed, want those that are in use", found)
	}
}

func FuzzCheckEndsWhateverTheFileHolds(f *testing.F) {
	data := made(f)
	f.Add(uint32(0), byte(1), uint32(len(data)))
	f.Add(uint32(4096*3), byte(255), uint32(len(data)))
	f.Fuzz(func(t *testing.T, at uint32, flip byte, size uint32) {
		bad := bytes.Clone(data[:int(size)%(len(data)+1)])
		for n := range 4 {
			if len(bad) > 0 {
				bad[(int(at)*(n+1)+n)%len(bad)] ^= flip
			}
		}
		if err := check(bad); err != nil && !errors.Is(err, boltfile.ErrDamaged) {
			t.Error(err)
		}
	})
}
