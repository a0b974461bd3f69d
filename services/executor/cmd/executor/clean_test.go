package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestAnInvalidTombstoneIsRefusedReportedAndRemovesNothing(t *testing.T) {
	never, stuck := io.Pipe()
	t.Cleanup(func() { _ = stuck.Close() })
	for name, in := range map[string]io.Reader{
		"nothing":      strings.NewReader(""),
		"no tombstone": strings.NewReader(`{"cell": "main"}`),
		"too long": strings.NewReader(
			`{"serverId": "` + strings.Repeat("x", maxTombstone) + `", "signature": "AA=="}`,
		),
		"nothing comes": never,
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			f := &flags{
				root:   root,
				output: "json",
				level:  "warn",
				clean:  cleanFlags{tombstone: "-", within: 300 * time.Millisecond},
			}
			var out strings.Builder
			err := f.cleanUp(context.Background(), false, in, &out)
			reported := &reportv1.CleanUpOutcome{}
			if e := protojson.Unmarshal([]byte(out.String()), reported); e != nil {
				t.Fatalf("%v: %s", e, out.String())
			}
			if fault.RefusalOf(err).GetCode() != "BAD_TOMBSTONE" ||
				reported.GetRefusal().GetCode() != "BAD_TOMBSTONE" {
				t.Errorf("%v; reported %v", err, reported)
			}
			if left, _ := os.ReadDir(root); len(left) > 0 {
				t.Errorf("it created %v", left)
			}
		})
	}
}

func TestATombstoneIsReadFromAFileAndARefusalIsReportedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tombstone")
	if err := os.WriteFile(
		file, []byte(`{"serverId": "s", "cell": "main", "signature": "AA==", "addedLater": true}`), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	f := &flags{
		root:   filepath.Join(t.TempDir(), "never joined"),
		output: "json",
		level:  "warn",
		clean:  cleanFlags{tombstone: file, within: time.Minute},
	}
	var out strings.Builder
	err := f.cleanUp(context.Background(), false, nil, &out)
	if fault.RefusalOf(err).GetCode() != "NO_EXECUTOR" || strings.Count(out.String(), "NO_EXECUTOR") != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
	if _, err := os.Stat(f.root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the root: %v", err)
	}
}
