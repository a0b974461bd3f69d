package allinone

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// oldData unpacks the data directory of a garrisond from before format numbers: ten facts,
// an image's content, an operator.
func oldData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	unpack := exec.Command("tar", "-C", dir, "-xzf", "testdata/data-format-0.tar.gz")
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func messages(t *testing.T, g *Garrison) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	c, err := g.dial(topology.UserProvision)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range topology.Streams(1) {
		is, err := c.Stream(t.Context(), s.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[s.Name] = is.Messages
	}
	return out
}

// logText is a log that several goroutines write and a test reads.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running runs g until the returned function is called, which waits for its end: until then it writes.
func running(t *testing.T, g *Garrison) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
}

func TestADataDirectoryWithoutANumberIsAdopted(t *testing.T) {
	t.Parallel()
	data := oldData(t)
	var says logText
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := Start(ctx, Config{Data: data, Listen: "127.0.0.1:0", Log: zerolog.New(&says)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if !strings.Contains(says.String(), "number-the-bus") {
		t.Errorf("the step was not logged: %s", says.String())
	}
	have := messages(t, g)
	if have[topology.Ledger] != 10 || have[topology.Blobs] != 1 {
		t.Errorf("messages %v, want the ledger's 10 and the image's content", have)
	}
	text, err := os.ReadFile(filepath.Join(data, "format"))
	if err != nil || string(text) != `{"format":1,"format_floor":1}`+"\n" {
		t.Errorf("the format is %q (%v)", text, err)
	}
	defer running(t, g)()
	recorded(t, asOperator(t, g), "goes-on")
}

func TestANewerDataDirectoryIsRefusedByItsNumberAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"the directory": "format", "the operator's context": "operator.json", "the authority": "trust/authority.json",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := oldData(t)
			newer := []byte(`{"format": 9, "format_floor": 8}`)
			if err := os.WriteFile(filepath.Join(data, file), newer, 0o600); err != nil {
				t.Fatal(err)
			}
			before := listed(t, data)
			g, err := Start(t.Context(), Config{Data: data, Listen: "127.0.0.1:0", Log: zerolog.Nop()})
			if err == nil {
				g.Close()
			}
			want := "has format 9, which needs a program that knows format 8"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if after := listed(t, data); after != before {
				t.Errorf("the directory changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// listed returns the name, size and time of every file.
func listed(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			b.WriteString(path + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
