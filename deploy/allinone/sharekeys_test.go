package allinone_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/deploy/allinone"
)

// exported returns a file with the keys of a new site, and the directory that has them.
func exported(t *testing.T) (file, data string) {
	t.Helper()
	s := allinone.Sharing{Data: filepath.Join(t.TempDir(), "one"), File: filepath.Join(t.TempDir(), "site.keys")}
	s.Log = io.Discard
	if err := allinone.ExportKeys(s); err != nil {
		t.Fatal(err)
	}
	return s.File, s.Data
}

func TestImportedKeysAreThoseOfTheFirstMember(t *testing.T) {
	t.Parallel()
	file, data := exported(t)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file of keys has mode %v (%v), want 0600", info.Mode(), err)
	}
	s := allinone.Sharing{Data: filepath.Join(t.TempDir(), "two"), File: file}
	for _, want := range []string{"has the keys", "has these keys already"} {
		var log bytes.Buffer
		s.Log = &log
		if err := allinone.ImportKeys(s); err != nil || !strings.Contains(log.String(), want) {
			t.Errorf("import: %v, %q; want %q", err, log.String(), want)
		}
	}
	for _, name := range []string{
		"operator.json", "trust/authority.json", "trust/secrets.key", "trust/keys/operator.seed",
		"trust/keys/tls-ca.pem", "trust/tls/ca.pem", "trust/services/registry.creds",
	} {
		one, err := os.ReadFile(filepath.Join(data, name))
		if err != nil {
			t.Error(err)
		}
		two, err := os.ReadFile(filepath.Join(s.Data, name))
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s differs (%v)", name, err)
		}
	}
	entries, err := os.ReadDir(s.Data)
	if err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v (%v), want the keys and the operator", entries, err)
	}
}

func TestAFileOfKeysThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	file, _ := exported(t)
	other, _ := exported(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	made := func(parts ...string) string {
		data := filepath.Join(t.TempDir(), "data")
		if err := os.MkdirAll(filepath.Join(append([]string{data}, parts...)...), 0o700); err != nil {
			t.Fatal(err)
		}
		return data
	}
	ofAnother := made()
	if err := allinone.ImportKeys(allinone.Sharing{Data: ofAnother, File: other, Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	otherCA := made()
	if err := allinone.ImportKeys(allinone.Sharing{Data: otherCA, File: file, Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(otherCA, "trust", "keys", "tls-ca.pem")
	if err := os.WriteFile(ca, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	backup := filepath.Join(t.TempDir(), "backup")
	for name, c := range map[string]struct{ file, data, want string }{
		"others can read it":       {write(whole, 0o644), made(), "UNSAFE_PERMISSIONS"},
		"it is cut":                {write(whole[:len(whole)/2], 0o600), made(), "no whole file of keys"},
		"it is damaged":            {write(damaged, 0o600), made(), "no whole file of keys"},
		"a file is missing":        {backup, made(), "file does not exist"},
		"streams are there":        {file, made("jetstream"), "has streams already"},
		"a cluster's streams":      {file, made("cluster"), "has streams already"},
		"half of other keys":       {file, made("trust"), "has keys already"},
		"the keys of another site": {file, ofAnother, "keys of another site"},
		"another CA":               {file, otherCA, "tls-ca.pem differs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tree(t, c.data)
			err := allinone.ImportKeys(allinone.Sharing{Data: c.data, File: c.file, Log: io.Discard})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if after := tree(t, c.data); after != before {
				t.Errorf("the directory held %s, and then %s", before, after)
			}
		})
	}
	if err := allinone.ExportKeys(allinone.Sharing{Data: made(), File: file, Log: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "never replaces a file") {
		t.Errorf("an export over a file: %v", err)
	}
}

// tree lists what is below a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all = append(all, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}
