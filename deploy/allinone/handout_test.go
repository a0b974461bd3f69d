package allinone_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// ownKeys says which files of a data directory hold the keys of each part.
var ownKeys = map[string][]string{
	"bus":             {"trust/tls/bus.pem"},
	"registry":        {"trust/services/registry.creds", "trust/signer/", "trust/secrets.key"},
	"image-catalog":   {"trust/services/image-catalog.creds"},
	"task-dispatcher": {"trust/services/task-dispatcher.creds", "trust/secrets.key"},
	"access": {
		"trust/services/access.creds", "trust/services/access-system.creds", "trust/keys/operator.seed",
		"trust/keys/OPS-admin.seed", "trust/keys/OPS-operator.seed", "trust/keys/OPS-viewer.seed",
		"trust/keys/OPS-reporter.seed", "trust/keys/OPS-approver.seed", "trust/keys/AUDIT-auditor.seed",
	},
	"provision": {
		"trust/services/provision.creds", "trust/services/provision-copy.creds", "trust/services/system.creds",
	},
	"operator": {"operator.json"},
}

// secretText is what a secret looks like: a seed of NATS or a private key in PEM.
var secretText = regexp.MustCompile(`\bS[OAUNCX][A-Z2-7]{56}\b|(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END`)

// filesIn returns the content of every file below a directory.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// secretsIn returns the secrets in a file. The key of secrets is one as a whole.
func secretsIn(name, text string) []string {
	if strings.HasSuffix(name, "secrets.key") {
		return []string{text}
	}
	return secretText.FindAllString(text, -1)
}

// handedOut writes keys with a hand-out, and returns how to do so again.
func handedOut(t *testing.T) (k allinone.Keys, again func()) {
	t.Helper()
	k = allinone.Keys{Data: t.TempDir(), URL: "tls://bus:4222", HandOut: filepath.Join(t.TempDir(), "hand-out")}
	again = func() {
		t.Helper()
		if err := allinone.WriteKeys(k); err != nil {
			t.Fatal(err)
		}
	}
	again()
	return k, again
}

// The host of one part must not be able to act as another.
func TestAPartIsHandedNoKeyOfAnother(t *testing.T) {
	t.Parallel()
	k, _ := handedOut(t)
	all := filesIn(t, k.Data)
	of := map[string]string{} // the file of each secret
	for name, text := range all {
		for _, s := range secretsIn(name, text) {
			of[s] = name
		}
	}
	if len(of) < 20 {
		t.Fatalf("only %d secrets were found", len(of))
	}
	dirs, err := os.ReadDir(k.HandOut)
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, d := range dirs {
		parts = append(parts, d.Name())
	}
	if want := slices.Sorted(maps.Keys(ownKeys)); !slices.Equal(parts, want) {
		t.Errorf("handed out to %v, want %v", parts, want)
	}
	for part, own := range ownKeys {
		may := map[string]bool{}
		for name, text := range all {
			if slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(name, o) }) {
				for _, s := range secretsIn(name, text) {
					may[s] = true
				}
			}
		}
		var has int
		for name, text := range filesIn(t, filepath.Join(k.HandOut, part)) {
			if text != all[name] {
				t.Errorf("%s: %s differs from the data directory's", part, name)
			}
			for _, s := range secretsIn(name, text) {
				if has++; !may[s] {
					t.Errorf("%s has a key that is not its own: %s, which is in %s", part, name, of[s])
				}
			}
		}
		if has != len(may) || has == 0 {
			t.Errorf("%s has %d keys, want %d", part, has, len(may))
		}
	}
}

func TestWhatIsHandedOutIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	k, _ := handedOut(t)
	err := filepath.WalkDir(k.HandOut, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each part's directory is one that its program can use.
func TestAPartOpensWhatItIsHanded(t *testing.T) {
	t.Parallel()
	k, _ := handedOut(t)
	dir := func(part string) string { return filepath.Join(k.HandOut, part, "trust") }
	if _, err := trust.OpenSigner(filepath.Join(dir("registry"), "signer")); err != nil {
		t.Error(err)
	}
	if key, err := trust.ReadSecretKey(filepath.Join(dir("task-dispatcher"), "secrets.key")); err != nil || key == nil {
		t.Error(err)
	}
	issuer, err := trust.OpenIssuer(dir("access"))
	if err != nil {
		t.Fatal(err)
	}
	public, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range topology.Roles {
		p := trust.Person{Name: "ann", Role: role, PublicKey: public, Expires: time.Now().Add(time.Hour)}
		if _, err := issuer.Sign(p); err != nil {
			t.Error(err)
		}
	}
	if people, err := issuer.People(); err != nil || len(people) != 1 {
		t.Errorf("access knows %v, %v; want the first operator", people, err)
	}
	before := filesIn(t, filepath.Join(k.HandOut, "provision"))
	if _, err := trust.OpenAuthority(dir("provision")); err != nil {
		t.Error(err)
	}
	if !maps.Equal(before, filesIn(t, filepath.Join(k.HandOut, "provision"))) {
		t.Error("provision signs in the directory that it was handed")
	}
}

// Each run brings the parts up to date, and touches no file that is.
func TestAHandOutFollowsTheKeys(t *testing.T) {
	t.Parallel()
	k, again := handedOut(t)
	var log bytes.Buffer
	k.Log = &log
	run := func(step string) string {
		log.Reset()
		k.ChangeCA = step
		if err := allinone.WriteKeys(k); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	again()
	if got := run(""); got != "" {
		t.Errorf("touched though current: %s", got)
	}
	for _, step := range []string{"begin", "end"} {
		got := run(step)
		for _, want := range []string{
			"bus: wrote trust/tls/bus.pem", "registry: wrote trust/tls/ca.pem", "access: wrote trust/tls/ca.pem",
			"operator: wrote operator.json",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("--change-ca %s: %s\nlacks %s", step, got, want)
			}
		}
		if strings.Contains(got, ".creds") || strings.Contains(got, "accounts.conf") {
			t.Errorf("--change-ca %s touched what is current: %s", step, got)
		}
	}
	if k.Names = []string{"bus2"}; !strings.Contains(run(""), "bus: wrote trust/tls/bus.pem") {
		t.Error("the renewed certificate was not handed out")
	}
	damaged := filepath.Join(k.HandOut, "registry", "trust", "secrets.key")
	if err := os.WriteFile(damaged, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(""); !strings.Contains(got, "registry: wrote trust/secrets.key") || strings.Count(got, "\n") != 1 {
		t.Errorf("a damaged file: %s", got)
	}
}

func TestAHandOutWithoutTLSHasNoCertificates(t *testing.T) {
	t.Parallel()
	k := allinone.Keys{
		Data: t.TempDir(), URL: "nats://bus:4222", AllowPlain: true, HandOut: filepath.Join(t.TempDir(), "hand-out"),
	}
	if err := allinone.WriteKeys(k); err != nil {
		t.Fatal(err)
	}
	files := slices.Sorted(maps.Keys(filesIn(t, filepath.Join(k.HandOut, "bus"))))
	if want := []string{"trust/accounts.conf"}; !slices.Equal(files, want) {
		t.Errorf("the bus has %v, want %v", files, want)
	}
}

// A part keeps no key that it no longer needs; files of others stay.
func TestAKeyThatAPartDoesNotNeedIsRemoved(t *testing.T) {
	t.Parallel()
	k, again := handedOut(t)
	dir := filepath.Join(k.HandOut, "image-catalog")
	for _, name := range []string{"trust/secrets.key", "notes"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again()
	got := slices.Sorted(maps.Keys(filesIn(t, dir)))
	if want := []string{"notes", "trust/services/image-catalog.creds", "trust/tls/ca.pem"}; !slices.Equal(got, want) {
		t.Errorf("the catalog has %v, want %v", got, want)
	}
}

// The bus begins with the keys that access had refused, also after accounts were signed again.
func TestKeysTakesTheRevokedKeysFromAccess(t *testing.T) {
	t.Parallel()
	k, again := handedOut(t)
	issuer, err := trust.OpenIssuer(filepath.Join(k.HandOut, "access", "trust"))
	if err != nil {
		t.Fatal(err)
	}
	public, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := issuer.Revoke(topology.AccountNodes, []string{public})
	if err != nil {
		t.Fatal(err)
	}
	again()
	text, err := os.ReadFile(filepath.Join(k.HandOut, "bus", "trust", "accounts.conf"))
	if err != nil || !strings.Contains(string(text), token) {
		t.Errorf("the bus would begin without the revoked key: %v", err)
	}
}

// Credentials that were renewed in the file that was handed out are not written over.
func TestKeysTakesRenewedCredentialsFromTheOperator(t *testing.T) {
	t.Parallel()
	k, again := handedOut(t)
	file := filepath.Join(k.HandOut, "operator", "operator.json")
	c, err := trust.ReadContext(file)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := trust.OpenIssuer(filepath.Join(k.Data, "trust"))
	if err != nil {
		t.Fatal(err)
	}
	_, until := trust.Times(c.JWT)
	c.JWT, err = issuer.Sign(trust.Person{
		Name: c.Actor, Role: topology.Admin, PublicKey: c.PublicKey(), Expires: until.Add(time.Hour),
	})
	if err == nil {
		err = c.Write(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	again()
	for _, path := range []string{file, filepath.Join(k.Data, "operator.json")} {
		if have, err := trust.ReadContext(path); err != nil || have.JWT != c.JWT {
			t.Errorf("%s lost the renewed credentials: %v", path, err)
		}
	}
}

func TestAHandOutIntoTheDataDirectoryOrThroughALinkIsRefused(t *testing.T) {
	t.Parallel()
	k := allinone.Keys{Data: filepath.Join(t.TempDir(), "bus"), URL: "tls://bus:4222"}
	k.HandOut = filepath.Dir(k.Data)
	if err := allinone.WriteKeys(k); err == nil || !strings.Contains(err.Error(), "is the data directory") {
		t.Errorf("into the data directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(k.Data, "trust", "keys", "operator.seed")); err != nil {
		t.Errorf("the authority was harmed: %v", err)
	}
	k, _ = handedOut(t)
	link := filepath.Join(k.HandOut, "access", "trust")
	if err := os.RemoveAll(link); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	_ = allinone.WriteKeys(k)
	if left := filesIn(t, outside); len(left) > 0 {
		t.Errorf("wrote through a link: %v", slices.Collect(maps.Keys(left)))
	}
}
