# For type checkers and editors only: at run time the files of this folder are found by themselves.
from fedstat.federated.method import Method
from fedstat.methods._cards import Card as Card
from fedstat.methods._cards import Cards as Cards
from fedstat.methods._cards import Variant as Variant
from fedstat.methods.apfl import APFL as APFL
from fedstat.methods.clusteredfl import ClusteredFL as ClusteredFL
from fedstat.methods.cut import Count as Count
from fedstat.methods.cut import Quantile as Quantile
from fedstat.methods.ditto import Ditto as Ditto
from fedstat.methods.factorizedfl import FactorizedFL as FactorizedFL
from fedstat.methods.fedala import FedALA as FedALA
from fedstat.methods.fedamp import FedAMP as FedAMP
from fedstat.methods.fedavg import FedAvg as FedAvg
from fedstat.methods.fedbabu import FedBABU as FedBABU
from fedstat.methods.fedbn import FedBN as FedBN
from fedstat.methods.fedcac import FedCAC as FedCAC
from fedstat.methods.feddecomp import FedDecomp as FedDecomp
from fedstat.methods.feddyn import FedDyn as FedDyn
from fedstat.methods.fedem import FedEM as FedEM
from fedstat.methods.fedfac import FedFac as FedFac
from fedstat.methods.fedfomo import FedFOMO as FedFOMO
from fedstat.methods.fedlc import FedLC as FedLC
from fedstat.methods.fednova import FedNova as FedNova
from fedstat.methods.fedpac import FedPAC as FedPAC
from fedstat.methods.fedpara import FedPara as FedPara
from fedstat.methods.fedper import FedPer as FedPer
from fedstat.methods.fedproto import FedProto as FedProto
from fedstat.methods.fedprox import FedProx as FedProx
from fedstat.methods.fedrep import FedRep as FedRep
from fedstat.methods.fedrod import FedRoD as FedRoD
from fedstat.methods.fedsplit import FedSplit as FedSplit
from fedstat.methods.filterdecomp import FilterDecomp as FilterDecomp
from fedstat.methods.lgfedavg import LGFedAvg as LGFedAvg
from fedstat.methods.local import Local as Local
from fedstat.methods.moon import MOON as MOON
from fedstat.methods.perfedavg import PerFedAvg as PerFedAvg
from fedstat.methods.pfedgate import PFedGate as PFedGate
from fedstat.methods.pfedme import PFedMe as PFedMe
from fedstat.methods.pfedsd import PFedSD as PFedSD
from fedstat.methods.scaffold import SCAFFOLD as SCAFFOLD

def available() -> Cards: ...
def find(name: str) -> type[Method]: ...
def __getattr__(name: str) -> type[Method]: ...
