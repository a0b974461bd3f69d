"""Stands for nats-py: it connects with the TLS settings that it is given, and prints what is requested."""
import asyncio, json, ssl, urllib.parse


class Client:
    async def request(self, subject, body, timeout, headers):
        print("asks", subject, json.dumps(json.loads(body)), json.dumps(headers))
        return self

    data = b"stored"


async def connect(servers, tls=None, **options):
    at = urllib.parse.urlsplit(servers[0])
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    await reader.readline()  # INFO
    await writer.start_tls(tls or ssl.create_default_context(), server_hostname=at.hostname)
    print("proved itself by", writer.get_extra_info("ssl_object").version())
    writer.close()
    return Client()
