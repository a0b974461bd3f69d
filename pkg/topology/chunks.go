package topology

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// ChunkWindow is how many chunks a server requests at a time. It bounds what the bus holds for one that reads slowly.
const ChunkWindow = 4

// ChunkAddress is a chunk of a blob, and the server that reads it.
type ChunkAddress struct {
	ServerAddress
	Digest string // of the blob, in hexadecimal
	Number int
}

// String returns the tokens of the address in a subject.
func (a ChunkAddress) String() string {
	return a.ServerAddress.String() + "." + a.Digest + "." + strconv.Itoa(a.Number)
}

// ChunkRequestSubject returns the subject on which a server requests a chunk: garrison.chunk.CELL.SERVER.SHA256.N.
// The request has no content. Its reply subject is ignored, because a server chooses it freely.
func ChunkRequestSubject(a ChunkAddress) string { return chunk + a.String() }

// chunkRequestsOf matches the requests of one server. As a permission it also lets that server write a wildcard.
func chunkRequestsOf(a ServerAddress) string { return chunk + a.String() + ".*.*" }

// ChunkRequestSubjects matches the requests of all servers.
const ChunkRequestSubjects = chunk + "*.*.*.*"

// ChunkAnswerSubject returns the subject of the answer, a chunk or a refusal: garrison.content.CELL.SERVER.SHA256.N.
// Only that server may subscribe to it.
func ChunkAnswerSubject(a ChunkAddress) string { return content + a.String() }

// ChunkAnswerSubjects matches the answers to all servers.
const ChunkAnswerSubjects = content + "*.*.*.*"

// chunkAnswersTo matches the answers to one server.
func chunkAnswersTo(a ServerAddress) string { return content + a.String() + ".*.*" }

// ChunkAnswersOf matches the answers about the chunks of one blob to one server.
func ChunkAnswersOf(a ServerAddress, digest []byte) string {
	return content + a.String() + "." + hex.EncodeToString(digest) + ".*"
}

// ParseChunkRequestSubject reads the subject of a request. It refuses one with a wildcard, a digest that is not 64
// hexadecimal digits, or a number in another form than ChunkRequestSubject writes; of such a subject the address has
// the cell and the server only.
func ParseChunkRequestSubject(subject string) (ChunkAddress, error) {
	return parseChunk(chunk, subject)
}

// ParseChunkAnswerSubject reads the subject of an answer.
func ParseChunkAnswerSubject(subject string) (ChunkAddress, error) {
	return parseChunk(content, subject)
}

// digestDigits is the length of a digest in a subject.
const digestDigits = 64

func parseChunk(prefix, subject string) (ChunkAddress, error) {
	t, err := tokens(subject, prefix, 4)
	if err != nil {
		return ChunkAddress{}, err
	}
	a := ChunkAddress{ServerAddress: ServerAddress{Cell: t[0], Server: t[1]}, Digest: t[2]}
	digest, err := hex.DecodeString(t[2])
	if err == nil {
		a.Number, err = strconv.Atoi(t[3])
	}
	exact := prefix+a.String() == subject && hex.EncodeToString(digest) == t[2] && len(t[2]) == digestDigits
	if err != nil || !exact || a.Number < 0 || strings.ContainsAny(subject, "*>") {
		return ChunkAddress{ServerAddress: a.ServerAddress},
			fault.New(fault.Invalid, "subject %q is not a chunk's", subject)
	}
	return a, nil
}

// BlobSubject returns the subject of a chunk of a blob: garrison.blob.SHA256.N.
func BlobSubject(digest []byte, chunk int) string {
	return blob + hex.EncodeToString(digest) + "." + strconv.Itoa(chunk)
}

// ChunkSubjects matches every chunk of every blob.
const ChunkSubjects = blob + "*.*"

// BlobSubjects matches every chunk of a blob.
func BlobSubjects(digest []byte) string { return blob + hex.EncodeToString(digest) + ".*" }

// FirstChunkSubjects matches the first chunk of every blob.
const FirstChunkSubjects = blob + "*.0"

// ParseBlobSubject reads a chunk's subject.
func ParseBlobSubject(subject string) (digest []byte, chunk int, err error) {
	t, err := tokens(subject, blob, 2)
	if err != nil {
		return nil, 0, err
	}
	if digest, err = hex.DecodeString(t[0]); err == nil {
		chunk, err = strconv.Atoi(t[1])
	}
	if err != nil {
		return nil, 0, fault.New(fault.Invalid, "subject %q is not a chunk's: %w", subject, err)
	}
	return digest, chunk, nil
}

// advisories is where the parts of advisories are stored, beside the chunks of images.
const advisories = blob + "advisories."

// AdvisorySubjects matches every part of advisories.
const AdvisorySubjects = advisories + "*"

// AdvisoryPart is one part of an upload of advisories.
type AdvisoryPart struct {
	Upload      uint64 // when it began, in nanoseconds
	Part, Parts int
	Source      string // a name
}

// Subject returns the subject of the part: garrison.blob.advisories.UPLOAD-PART-PARTS-SOURCE.
func (p AdvisoryPart) Subject() string {
	return fmt.Sprintf("%s%d-%d-%d-%s", advisories, p.Upload, p.Part, p.Parts, p.Source)
}

// ParseAdvisorySubject reads the subject of a part.
func ParseAdvisorySubject(subject string) (p AdvisoryPart, err error) {
	t, err := tokens(subject, advisories, 1)
	if err != nil {
		return p, err
	}
	words := strings.SplitN(t[0], "-", 4)
	if len(words) < 4 {
		return p, fault.New(fault.Invalid, "subject %q is not a part of advisories", subject)
	}
	p.Source = words[3]
	var failed [3]error
	p.Upload, failed[0] = strconv.ParseUint(words[0], 10, 64)
	p.Part, failed[1] = strconv.Atoi(words[1])
	p.Parts, failed[2] = strconv.Atoi(words[2])
	if err := errors.Join(failed[:]...); err != nil {
		return p, fault.New(fault.Invalid, "subject %q is not a part of advisories: %w", subject, err)
	}
	return p, nil
}
