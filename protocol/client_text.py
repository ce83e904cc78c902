"""Descriptions of clients, for notes and diagnoses."""


def client_text(client_id: str, client_host: str, client_port: int = -1) -> str:
    """Format a client: `billing-7 at 10.0.0.7:51234`. A request from within the process has no host."""
    host = client_host.lstrip("/") + (f":{client_port}" if client_port >= 0 else "")
    return (client_id or "(unnamed)") + (f" at {host}" if host else "")
