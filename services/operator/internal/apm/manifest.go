package apm

import (
	"context"
	"crypto/sha1" // the digest that the manifest has
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/services/operator/internal/unpack"
)

// maxManifest bounds a manifest, in bytes.
const maxManifest = 1 << 20

// Manifest is what is read of an IMGAPI manifest.
type Manifest struct {
	UUID         string         `json:"uuid"`
	Name         string         `json:"name"`
	Version      string         `json:"version"`
	Type         string         `json:"type"`
	OS           string         `json:"os"`
	Description  string         `json:"description"`
	Origin       string         `json:"origin"`
	Tags         map[string]any `json:"tags"`
	Requirements map[string]any `json:"requirements"`
	Channels     []string       `json:"channels"`
	Files        []struct {
		SHA1 string      `json:"sha1"`
		Size json.Number `json:"size"`
	} `json:"files"`
}

// ReadManifest reads a manifest and refuses one that is not of an agent.
func ReadManifest(path string) (m Manifest, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return m, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return m, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxManifest {
		return m, wrong("%s has more than %d bytes", path, maxManifest)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, wrong("%s is no image manifest of IMGAPI: %v", path, err)
	}
	switch {
	case !ident.IsUUID(strings.ToLower(m.UUID)):
		err = wrong("%s is no image manifest of IMGAPI: its uuid is %q", path, m.UUID)
	case m.Type != "" && m.Type != "other":
		err = wrong("%s is of an image of type %s; agents have the type other", path, m.Type)
	case m.Origin != "":
		err = wrong("%s is of an incremental image of %s, which an agent never is", path, m.Origin)
	case len(m.Files) > 1:
		err = wrong("%s has %d files; an agent has one", path, len(m.Files))
	default:
		err = ident.CheckName("agent", m.Name)
	}
	return m, err
}

// check refuses an archive that is not the manifest's.
func (m Manifest) check(ctx context.Context, path string) error {
	if len(m.Files) == 0 {
		return nil // it was not activated; image_uuid is compared all the same
	}
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	sum := sha1.New()
	n, err := io.Copy(sum, &unpack.Reader{Ctx: ctx, From: f})
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	want := m.Files[0]
	if size, err := want.Size.Int64(); want.Size != "" && (err != nil || size != n) {
		return wrong("%s has %d bytes; the manifest says %s", path, n, want.Size)
	}
	if have := hex.EncodeToString(sum.Sum(nil)); want.SHA1 != "" && !strings.EqualFold(want.SHA1, have) {
		return wrong("%s has the SHA-1 %s; the manifest says %s", path, have, want.SHA1)
	}
	return nil
}

func wrong(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadDeclaration, "%s", fmt.Sprintf(format, args...))
}
