package trust_test

import (
	"encoding/hex"
	"maps"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// attacksOn returns everything that a server might send to reach beyond itself.
func attacksOn(me, victim topology.ServerAddress) map[string]*nats.Msg {
	all := attacksByReply(me, victim)
	maps.Copy(all, attacksByWriting(me, victim))
	maps.Copy(all, attacksByReading(me, victim))
	return all
}

// attacksByReply have an answer that the server may have stored elsewhere.
func attacksByReply(me, victim topology.ServerAddress) map[string]*nats.Msg {
	ownDocument := documentOf(me)
	return map[string]*nats.Msg{
		"forge a report by reply subject": {
			Subject: ownDocument,
			Reply:   topology.ReportSubject(victim, "task"),
		},
		"overwrite a document by reply subject": {Subject: ownDocument, Reply: topology.DesiredSubject(victim)},
		"write the ledger by reply subject": {
			Subject: ownDocument,
			Reply:   ledger.FactSubject(ledger.Server, victim.Server, "dead"),
		},
		"publish an intent by reply subject": {
			Subject: ownDocument,
			Reply:   topology.IntentSubject("remove", "operator", ident.New()),
		},
		"store a chunk by reply subject": {
			Subject: ownDocument,
			Reply:   topology.BlobSubject(make([]byte, 32), 0),
		},
		"forge by the reply of an own report": {
			Subject: topology.ReportSubject(me, topology.ReportTask),
			Reply:   topology.DesiredSubject(victim),
		},
		"bury itself by reply subject": {
			Subject: ownDocument,
			Reply:   ledger.FactSubject(ledger.Server, me.Server, "dead"),
		},
		"write its own document by reply subject":  {Subject: ownDocument, Reply: topology.DesiredSubject(me)},
		"another's bell by the reply of a request": {Subject: ownDocument, Reply: topology.BellSubject(victim)},
	}
}

// attacksByWriting publish what is another's to say.
func attacksByWriting(me, victim topology.ServerAddress) map[string]*nats.Msg {
	inbox := topology.Inbox(me.Server) + ".loot"
	return map[string]*nats.Msg{
		"report a kind that does not exist": {
			Subject: topology.ReportSubject(me, "x"),
			Reply:   inbox,
			Data:    []byte("junk"),
		},
		"write another's report": {
			Subject: topology.ReportSubject(victim, "task"),
			Reply:   inbox,
			Data:    []byte("forged"),
		},
		"write a document": {
			Subject: topology.DesiredSubject(victim),
			Reply:   inbox,
			Data:    []byte("forged"),
		},
		"write its own document": {
			Subject: topology.DesiredSubject(me),
			Reply:   inbox,
			Data:    []byte("forged"),
		},
		"write the ledger": {
			Subject: ledger.FactSubject(ledger.Server, me.Server, "online"),
			Reply:   inbox,
			Data:    []byte("forged"),
		},
		"say in the ledger that a person made it": {
			Subject: ledger.FactSubject(ledger.Server, me.Server, "invited"),
			Reply:   inbox,
			Data:    []byte("forged"),
		},
		"say in the ledger that it is dead": {
			Subject: ledger.FactSubject(ledger.Server, me.Server, "dead"),
			Reply:   inbox,
			Data:    []byte("forged"),
		},
		"invite itself anew": {
			Subject: topology.APISubject(topology.UserRegistry, "admin", "invite-server", "operator"),
			Reply:   inbox,
		},
		"enrol itself anew": {Subject: topology.EnrolSubject(me), Reply: inbox},
		"publish an intent": {
			Subject: topology.IntentSubject("remove", "operator", ident.New()),
			Reply:   inbox,
			Data:    []byte("{}"),
		},
		"store a chunk": {
			Subject: topology.BlobSubject(make([]byte, 32), 0),
			Reply:   inbox,
			Data:    []byte("forged"),
		},
	}
}

// attacksByReading ask for what is not the server's to know or to have done.
func attacksByReading(me, victim topology.ServerAddress) map[string]*nats.Msg {
	inbox, ownDocument := topology.Inbox(me.Server)+".loot", documentOf(me)
	return map[string]*nats.Msg{
		"read a chunk from the stream": {
			Subject: topology.NodesAPI + ".DIRECT.GET.BLOBS." + topology.BlobSubject(make([]byte, 32), 0),
			Reply:   inbox,
		},
		"read any chunk from the stream": {
			Subject: topology.NodesAPI + ".DIRECT.GET.BLOBS." + topology.ChunkSubjects,
			Reply:   inbox,
		},
		"answer another's request for a chunk": {
			Subject: topology.ChunkAnswerSubject(topology.ChunkAddress{
				ServerAddress: victim, Digest: hex.EncodeToString(make([]byte, 32)),
			}),
			Data: []byte("forged"),
		},
		"request a chunk in another's name": {
			Subject: topology.ChunkRequestSubject(topology.ChunkAddress{ServerAddress: victim, Digest: "00"}),
			Reply:   inbox,
		},
		"read another's document": {
			Subject: topology.NodesAPI + ".DIRECT.GET.DESIRED." + topology.DesiredSubject(victim),
			Reply:   inbox,
		},
		"read by the core prefix": {
			Subject: topology.CoreAPI + ".DIRECT.GET.DESIRED." + topology.DesiredSubject(victim),
			Reply:   inbox,
		},
		"read with a smuggled body": {
			Subject: ownDocument,
			Reply:   inbox,
			Data:    []byte(`{"last_by_subj":"` + topology.DesiredSubject(victim) + `"}`),
		},
		"read any message": {
			Subject: topology.NodesAPI + ".DIRECT.GET.DESIRED",
			Reply:   inbox,
			Data:    []byte(`{"seq":2}`),
		},
		"read the ledger": {
			Subject: topology.NodesAPI + ".DIRECT.GET.LEDGER",
			Reply:   inbox,
			Data:    []byte(`{"seq":1}`),
		},
		"list streams":                    {Subject: "$JS.API.STREAM.LIST", Reply: inbox},
		"list streams by the node prefix": {Subject: topology.NodesAPI + ".STREAM.LIST", Reply: inbox},
		"make a consumer": {
			Subject: "$JS.API.CONSUMER.CREATE.DESIRED",
			Reply:   inbox,
			Data:    []byte(`{"stream_name":"DESIRED","config":{"deliver_subject":"` + inbox + `"}}`),
		},
		"delete a stream": {Subject: "$JS.API.STREAM.DELETE.LEDGER", Reply: inbox},
		"call a service": {
			Subject: topology.APISubject(topology.UserRegistry, "read", "list-servers", "operator"),
			Reply:   inbox,
		},
		"renew another's credentials": {Subject: topology.RenewSubject(victim), Reply: inbox},
		"enrol another":               {Subject: topology.EnrolSubject(victim), Reply: inbox},
		"ask the system account":      {Subject: "$SYS.REQ.SERVER.PING", Reply: inbox},
	}
}
