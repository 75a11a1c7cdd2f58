"""The ends of a run as programs: ``python -m tests.support.flower_ends server|client|stranger FOLDER PORTS NUMBER``."""

from __future__ import annotations

import datetime
import ipaddress
import sys
from pathlib import Path

import numpy as np
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from safetensors.torch import save_file

import fedstat as fs
from fedstat.data import Clients
from fedstat.data.clients import Samples
from fedstat.export import grpc
from fedstat.federated.client.network import Model

CLIENTS, ROUNDS, SEED, HOST = 3, 3, 5, "localhost"
METHODS: dict[str, fs.Method] = {
    "FedAvg": fs.FedAvg(),
    "FedPer": fs.methods.find("FedPer")(),
    "Ditto": fs.methods.find("Ditto")(penalty=0.5),
    "FedFac": fs.FedFac(layers=["hidden"], tau=fs.Quantile(0.5), kappa=0.5),
}
TRAINING = fs.Training(lr=0.1, batch_size=4, local_epochs=2)


def model() -> Model:
    """Return what builds the network of all runs."""
    return fs.models.mlp(8, 6, 2)


def everybody(sizes: tuple[int, ...] = (14, 21, 9), inputs: int = 8) -> Clients:
    """Return all clients' data, as the simulation has them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(sum(sizes), inputs)).astype(np.float32)
    who = np.repeat(np.arange(len(sizes)), sizes)
    y = (x[:, 0] + np.where(who % 2, 1, -1) * x[:, 1] > 0).astype(int)
    return fs.data.from_arrays(x, y, who)


def alone(clients: Clients, k: int) -> Clients:
    """Return client k's data alone, as its owner has them."""

    def own(samples: Samples) -> Samples:
        return samples.of(np.array([k]))

    assert clients.test is not None
    return Clients(own(clients.train), test=own(clients.test), classes=clients.classes)


def end(name: str, number: int, folder: Path) -> fs.export.Client:
    """Return one client of a method."""
    data, kept = alone(everybody(), number), folder / name
    how = {"number": number, "clients": CLIENTS, "folder": kept, "seed": SEED}
    return fs.export.Client(METHODS[name], model(), data, TRAINING, **how)


def certify(folder: Path) -> None:
    """Make an authority and a certificate for the host in `folder`: ca.pem, server.pem, server.key."""
    folder.mkdir(parents=True)
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"authority in {folder.name}")])
    host = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    now = datetime.datetime.now(datetime.UTC)
    for file, subject, key, extension in (("ca", name, authority, None), ("server", host, server, names)):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=extension is None, path_length=None), critical=True)
        )
        builder = builder if extension is None else builder.add_extension(extension, critical=False)
        signed = builder.sign(authority, hashes.SHA256())
        (folder / f"{file}.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret = server.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / "server.key").write_bytes(secret)


def main(role: str, where: str, ports: list[int], number: int) -> None:
    """Play one end of all methods' runs, one after the other, each on its own port."""
    folder = Path(where)
    tls = folder / "tls"
    if role == "stranger":  # trusts another authority
        wrong = (folder / "other" / "ca.pem").read_bytes()
        person = grpc._Client(end("FedAvg", number, folder))
        grpc.start_client(server_address=f"{HOST}:{ports[0]}", client=person, root_certificates=wrong)
        return
    for name, port in zip(METHODS, ports, strict=True):
        if role == "client":
            fs.export.flower.join(
                end(name, number, folder), f"{HOST}:{port}", root_certificate=tls / "ca.pem", timeout=300
            )
            continue
        server = fs.export.Server(METHODS[name], model(), TRAINING, clients=CLIENTS, seed=SEED)
        certificates = (tls / "ca.pem", tls / "server.pem", tls / "server.key")
        history = fs.export.flower.serve(server, ROUNDS, f"127.0.0.1:{port}", certificates=certificates, timeout=300)
        history.to_csv(folder / f"{name}.csv", index=False)
        save_file(dict(server.state.server), folder / f"{name}.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], sys.argv[2], [int(port) for port in sys.argv[3].split(",")], int(sys.argv[4]))
