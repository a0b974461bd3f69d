package images

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"time"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
)

// chunkWithin bounds how long a client takes to send a chunk of 512 KiB.
const chunkWithin = time.Minute

// put stores the chunks of an archive that the catalog lacks. It reads and checks the others, too.
func put(w http.ResponseWriter, r *http.Request) error {
	for _, header := range []string{"Content-Range", "Garrison-Dry-Run"} {
		if len(r.Header.Values(header)) > 0 {
			return fault.Refusef(fault.Invalid, code.Invalid, "an upload takes no header %s; "+
				"the whole archive is sent, and what the catalog has is not stored again", header)
		}
	}
	i, err := find(r)
	if err != nil {
		return err
	}
	if size := i.GetManifest().GetBlob().GetSizeBytes(); r.ContentLength >= 0 && uint64(r.ContentLength) != size {
		return wrong("the body has %d bytes, the manifest says %d", r.ContentLength, size)
	}
	missing, err := missingOf(r.Context(), i)
	if err != nil {
		return err
	}
	u := upload{Request: r, control: http.NewResponseController(w), image: i, missing: missing}
	if err := u.store(); err != nil {
		return err
	}
	if len(missing) > 0 {
		w.WriteHeader(http.StatusCreated)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
	return nil
}

func wrong(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.WrongDigest, format, args...).
		Try("the archive of the image: tar -xf FILE.gimg blob")
}

// upload is an archive that is being received.
type upload struct {
	*http.Request
	control *http.ResponseController
	image   *imagev1.Image
	missing map[uint32]bool
}

func (u upload) store() error {
	b, whole := u.image.GetManifest().GetBlob(), sha256.New()
	chunk := make([]byte, min(uint64(b.GetChunkSizeBytes()), b.GetSizeBytes()))
	for n := range b.GetChunkDigests() {
		data := chunk[:image.ChunkLen(b, n)]
		if err := u.read(data, n); err != nil {
			return err
		}
		if err := image.CheckChunk(b, n, data); err != nil {
			return err
		}
		whole.Write(data)
		if err := u.put(uint32(n), data); err != nil {
			return err
		}
	}
	if !bytes.Equal(whole.Sum(nil), b.GetDigest()) {
		return wrong("the body has the digest %x", whole.Sum(nil))
	}
	if n, _ := u.Body.Read(chunk[:1]); n > 0 {
		return wrong("the body has more than the %d bytes of the manifest", b.GetSizeBytes())
	}
	return nil
}

// read reads chunk n of the body.
func (u upload) read(data []byte, n int) error {
	_ = u.control.SetReadDeadline(time.Now().Add(chunkWithin)) // net/http can
	_, err := io.ReadFull(u.Body, data)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return wrong("the body ends within chunk %d of %d", n, len(u.image.GetManifest().GetBlob().GetChunkDigests()))
	case err != nil:
		return fault.New(fault.Unavailable, "read chunk %d of the body: %w", n, err)
	}
	return nil
}

// put stores a chunk unless the catalog has it.
func (u upload) put(n uint32, data []byte) error {
	if !u.missing[n] {
		return nil
	}
	_, err := client.Call[*catalogv1.PutChunkResponse](u.Context(), actor.From(u.Context()),
		&catalogv1.PutChunkRequest{ImageId: u.image.GetManifest().GetId(), Chunk: n, Content: data})
	return err
}
