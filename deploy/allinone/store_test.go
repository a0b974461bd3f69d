package allinone

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestABusThatFailedToWriteIsStartedAgainOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	var says bytes.Buffer
	looked := make(chan struct{}, 1)
	w := &storeWatch{log: zerolog.New(&says), every: time.Millisecond, free: func(string) (uint64, error) {
		select {
		case looked <- struct{}{}:
		default:
		}
		return free.Load(), nil
	}, trouble: func() error { return errors.New("no space left on device") }}
	ended := make(chan error, 1)
	go func() { ended <- w.run(t.Context()) }()
	for range 3 { // it keeps checking
		<-looked
	}
	free.Store(roomToGoOn)
	if err := <-ended; !errors.Is(err, ErrStore) {
		t.Errorf("%v, want ErrStore", err)
	}
	if n := strings.Count(says.String(), "until its disk has room"); n != 1 {
		t.Errorf("logged %d times that the disk is full, want once: %s", n, says.String())
	}
}

func TestABusThatWritesIsLeftAlone(t *testing.T) {
	t.Parallel()
	answers := 0
	w := &storeWatch{log: zerolog.Nop(), every: time.Millisecond, free: func(string) (uint64, error) {
		t.Error("read the free space without a reason")
		return 0, nil
	}, trouble: func() error { // one failed check alone is no reason
		if answers++; answers == 2 {
			return errors.New("busy")
		}
		return nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.run(ctx); err != nil {
		t.Error(err)
	}
}

func TestAnAddressThatIsTakenIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	data := t.TempDir()
	_, err = Start(t.Context(), Config{Data: data, Listen: l.Addr().String(), Log: zerolog.Nop(), Lazy: true})
	if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("%v, want the address refused", err)
	}
	if _, err := os.Stat(filepath.Join(data, "jetstream")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the bus had begun to start (%v)", err)
	}
}
